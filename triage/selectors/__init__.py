"""Reads: noun phrases that return exactly what one page or endpoint shows, within a fixed number of queries."""
