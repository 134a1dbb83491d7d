"""The records of one capture in memory or in pieces, and functions that run on parts of it."""
