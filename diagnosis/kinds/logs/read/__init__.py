"""Bytes of logs become lines: time, writer, level and a masked message each, as columns of a file."""
