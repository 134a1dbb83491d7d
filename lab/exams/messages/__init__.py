"""Made-up log systems whose messages are known by construction: one text file a system, one line a message."""
