"""Bytes, patterns, stamps and masks of lines: what knows no file."""
