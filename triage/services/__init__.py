"""Writes: one function an act, keyword-only, one transaction, one activity row, side effects on commit."""
