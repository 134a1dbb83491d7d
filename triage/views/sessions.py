"""Where a person is signed in, and signing out there."""

from __future__ import annotations

from allauth.account.decorators import reauthentication_required
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from triage.selectors.sessions import sessions_of
from triage.services.sessions import other_sessions_end, session_end


@require_http_methods(["GET", "HEAD", "POST"])
@reauthentication_required(allow_get=True)  # type: ignore[untyped-decorator]  # allauth ships no types
def sessions(request: HttpRequest) -> HttpResponse:
    """Lists the person's sessions; a POST ends one, or all but this."""
    this_key = request.session.session_key
    if request.method != "POST":
        shown = sessions_of(request.user, this_key=this_key)
        context = {"sessions": shown, "has_others": any(not one.is_this for one in shown)}
        context |= {"max_s": settings.SESSION_MAX_S, "idle_s": settings.SESSION_IDLE_S}
        return render(request, "account/sessions.html", context)
    if "others" in request.POST:
        count = other_sessions_end(person=request.user, kept_key=this_key)
        said = f"You are signed out in {count} other {'place' if count == 1 else 'places'}."
    elif session_end(person=request.user, pk=request.POST.get("end", "")):
        said = "You are signed out there."
    else:
        said = "That session has ended already."
    messages.success(request, said)
    return redirect("usersessions_list")
