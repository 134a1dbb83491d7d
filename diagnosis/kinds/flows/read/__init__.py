"""Captures and exports of flows become records."""
