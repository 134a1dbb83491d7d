"""Words, names, thresholds and limits as tables, and how they are read."""
