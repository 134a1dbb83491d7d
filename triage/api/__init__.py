"""The desk's endpoints below ``/api/v1/``: incidents, their findings and decisions, search."""
