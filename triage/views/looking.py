"""What happens to an incident while its page is open."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from ingest.parameters import seconds
from triage.models import Activity
from triage.selectors.incident import activity_words
from triage.services.looking import others_note
from triage.views.common import incident_or_404

#: names that are shown
MAX_NAMES = 3


@require_GET
def news(request: HttpRequest, number: int) -> HttpResponse:
    """Who else has the incident open, and what others did since ``?since=`` (seconds since 1970): a fragment.

    One query besides the incident, since every open page asks for it again and again.
    """
    found = incident_or_404(request, number)
    now = time.time()
    since = min(max(seconds(request.GET.get("since")) or 0.0, 0.0), now)
    acts = Activity.objects.filter(incident=found, at__gt=datetime.fromtimestamp(since, UTC))
    last = acts.exclude(actor=request.user.pk).select_related("actor").order_by("at", "pk").last()
    others = others_note(incident=found, name=request.user.get_username(), now=now)
    context = {
        "incident": found,
        "last": last,
        "words": activity_words(last) if last else "",
        "others": others[:MAX_NAMES],
        "more": len(others) - MAX_NAMES,
    }
    return render(request, "triage/incident/news.html", context)
