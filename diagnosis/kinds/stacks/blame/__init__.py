"""Which ranks made the others wait, and what to evict (ByteRobust)."""
