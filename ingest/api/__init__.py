"""The evidence API."""
