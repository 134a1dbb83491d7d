"""Incidents, reviews and statistics: the project package and the upper Django app."""
