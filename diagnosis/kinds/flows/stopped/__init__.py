"""A job that stopped: who should have sent next."""
