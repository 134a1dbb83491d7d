"""Reads: each function is named by a noun and returns exactly what one page or endpoint shows, in a fixed number of
queries.
"""
