"""Diagnosis from logs: reading, templates, comparisons across jobs, nodes and time."""
