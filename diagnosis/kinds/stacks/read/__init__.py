"""Dumps of each tool become frames of threads."""
