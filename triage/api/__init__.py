"""Triage endpoints below ``/api/v1/``: incidents with findings and decisions, statistics, search, routes."""
