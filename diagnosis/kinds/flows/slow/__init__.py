"""Who is slow, since when, and why."""
