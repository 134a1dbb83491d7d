"""How a job advances: its counters, the time between their values, and lines without a date."""
