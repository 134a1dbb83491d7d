"""Incidents, reviews and statistics: the project package and the upper Django app."""

from triage.celery import app as celery_app

__all__ = ["celery_app"]
