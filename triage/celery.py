"""The Celery application with the queues ``parse``, ``diagnose`` and ``notify``. Messages contain only ids."""

import gc
import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
# Django's checks import every page. They run before the workers start, in `manage.py prepare`; here they would only
# make each start of a worker twice as long.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("faultline")


@setup_logging.connect
def keep_logging(**_: Any) -> None:
    """Celery configures no logging if this signal has a receiver: the site's configuration holds in workers as well."""


@worker_init.connect
def keep_loaded(**_: Any) -> None:
    """What is loaded stays, and is shared with the pool's processes until a search for cycles writes into it."""
    gc.freeze()


app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
