"""Writes: one function per act, keyword-only, one transaction, one activity row, side effects on commit."""
