"""Incidents, reviews, statistics: the project package and the Django app on top."""

from triage.celery import app as celery_app

__all__ = ["celery_app"]
