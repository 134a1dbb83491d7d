"""Processes become ranks with a layout; equal stacks become groups."""
