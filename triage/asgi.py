"""The ASGI application of the production server."""

import gc
import os
import resource

import django

# What is loaded stays. To search it for cycles takes a third of the start, and later a part of each search.
gc.disable()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.template import engines  # noqa: E402
from django.urls import get_resolver  # noqa: E402

from triage.server import short_waits  # noqa: E402
from triage.server.front import Front, Limits  # noqa: E402

short_waits.install()
from triage.server.telling import tell_always  # noqa: E402

# Each sender needs a connection and a file.
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))

application = Front(
    limits=Limits(
        bytes_per_s=settings.BODY_MIN_BYTES_PER_S,
        body_s=settings.BODY_MAX_S,
        at_once=settings.BODIES_AT_ONCE,
        per_person=settings.BODIES_PER_PERSON,
    )
)

# All views and template tags are loaded now, in all processes side by side: else the first request of each does it.
_views, _engines = get_resolver().url_patterns, engines.all()
tell_always(application.requests)
gc.freeze()
gc.enable()
