"""The documents on the site: for everybody who has signed in, since the sign-in page tells strangers nothing else."""

from __future__ import annotations

from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from triage.manual.documents import CONTENTS, document, documents, help_url, picture
from triage.manual.searching import MAX_RESULTS, search

_NOT_THERE = "There is no document of this name. The first page of the help lists all of them."


@require_safe
def contents(request: HttpRequest) -> HttpResponse:
    """The list of all documents; with ``?find=`` the sections with these words."""
    query = request.GET.get("find", "").strip()
    if not query:
        return _page(request, CONTENTS)
    hits = search(documents(), query)
    context = {"nav": "help", "find": query, "hits": hits, "is_cut": len(hits) == MAX_RESULTS}
    return render(request, "triage/help/search.html", context)


@require_safe
def one(request: HttpRequest, name: str) -> HttpResponse:
    """One document."""
    if name == CONTENTS:
        return redirect(help_url())
    return _page(request, name)


@require_safe
def image(request: HttpRequest, name: str) -> FileResponse:
    """A picture of a document."""
    found = picture(name)
    if not found:
        raise Http404("There is no picture of this name.")
    path, kind = found
    response = FileResponse(path.open("rb"), content_type=kind)
    response["Cache-Control"] = "private, max-age=3600"
    return response


def _page(request: HttpRequest, name: str) -> HttpResponse:
    found = document(name)
    if not found:
        raise Http404(_NOT_THERE)
    context = {"nav": "help", "document": found, "is_contents": name == CONTENTS}
    return render(request, "triage/help/document.html", context)
