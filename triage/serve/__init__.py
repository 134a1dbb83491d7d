"""Starts Faultline: everything on one machine (``supervisor``), or one part of a larger installation (``parts``).

No module here imports Django: a supervisor waits, and its children load what they need.
"""
