"""The parallel layout of a job: groups and their sizes, and the clocks of their members."""
