"""The log viewer: what happened around this line?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import wraps

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header, urlencode
from django.views.decorators.http import require_GET

from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.model import LOG_KINDS, Kind
from ingest import selectors as evidence
from ingest.models import Artifact, Job
from ingest.parameters import instant, whole
from ingest.storage import BLOB_CHANGED
from ingest.sums import Changed
from triage.selectors.instant import (
    MAX_LINES,
    MAX_LINES_A_WRITER,
    MAX_LINES_OF_FILTER,
    AttemptFacts,
    moment_of,
    same_instant,
)
from triage.selectors.jobs import artifact_for
from triage.selectors.logmap import HEIGHT, log_map
from triage.selectors.logs import MAX_WINDOW_LINES, Filter, LogLine, evidence_lines, window
from triage.selectors.logsearch import find, templates_of
from triage.views.all_logs import MAX_LOGS, MAX_WORDS, text_search_of
from triage.views.jobs import job_or_404
from triage.views.records import records
from triage.views.site import gone

_BLOCK = 1 << 20
#: lines above the line of a permalink
_LEAD = 60
#: lines shown before and after the line of another page
_MAX_AROUND = 5
LEVELS_SHOWN = [(2, "info"), (3, "warning"), (4, "error"), (5, "fatal")]
#: the choices for seconds around an instant
WITHIN_S = (1, 2, 10, 60)


def _artifact(request: HttpRequest, slug: str, attempt: int, path: str) -> tuple[Job, Artifact]:
    job = job_or_404(request, slug)
    artifact = artifact_for(job, attempt, path)
    if artifact is None:
        raise Http404(f"Attempt {attempt} of {slug} has no file “{path}”: it may have been deleted.")
    return job, artifact


def _number(request: HttpRequest, name: str, default: int = 0) -> int:
    return whole(request.GET.get(name), default)


def _needs_bytes(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The same view; if the bytes are lost, 410 with what happened and what to do."""

    @wraps(view)
    def answer(request: HttpRequest, slug: str, attempt: int, path: str) -> HttpResponseBase:
        try:
            return view(request, slug, attempt, path)
        except Changed:
            return gone(
                request,
                f"“{path}”: {BLOB_CHANGED}",
                link=reverse("job-files", args=[slug]) + f"?attempt={attempt}",
                label="Go to the job's files",
            )
        except FileNotFoundError:
            return gone(
                request,
                f"The bytes of “{path}” are no longer in the storage: they were removed to free space, or its disk was "
                "lost. What was diagnosed from them is kept. Upload the same file again, and its lines are back.",
                link=reverse("job-files", args=[slug]) + f"?attempt={attempt}",
                label="Go to the job's files",
            )

    return answer


@require_GET
@_needs_bytes
def log(request: HttpRequest, slug: str, attempt: int, path: str) -> HttpResponse:
    """A window on the file: around ``line``, or from ``from`` on, at most ``count`` lines.

    For a flow capture, the table of its records. ``level``, ``who``, ``masked``, ``fold`` filter it, ``find`` searches
    (``regex``: a pattern), ``hide`` names hidden columns.
    """
    job, artifact = _artifact(request, slug, attempt, path)
    if artifact.kind == Kind.FLOW and (answer := records(request, job, artifact)):
        return answer
    line, requested = _number(request, "line"), _number(request, "count") or MAX_WINDOW_LINES
    start = _number(request, "from") or max(1, line - _LEAD)
    only = Filter(_number(request, "level"), request.GET.get("who", ""), request.GET.get("masked", ""))
    words, hidden = request.GET.get("find", "").strip()[:MAX_WORDS], set(request.GET.getlist("hide"))
    text_search, problem = text_search_of(request)
    shown = window(
        artifact, start=start, count=min(requested, MAX_WINDOW_LINES), only=only, fold=bool(request.GET.get("fold"))
    )
    here = line or start
    context = {
        "nav": "jobs",
        "job": job,
        "artifact": artifact,
        "window": shown,
        "is_binary": artifact.kind not in LOG_KINDS and any("\u2400" in row.text for row in shown.lines[:3]),
        "line": line,
        "here": here,
        "only": only,
        "fold": bool(request.GET.get("fold")),
        "words": words,
        "is_pattern": bool(request.GET.get("regex")),
        "problem": problem,
        "search_kept": urlencode({"find": words, **({"regex": "1"} if request.GET.get("regex") else {})}),
        "found": templates_of([artifact], text_search) if text_search else None,
        "hidden": hidden,
        "rest": requested - MAX_WINDOW_LINES if "count" in request.GET and requested > MAX_WINDOW_LINES else 0,
        "before": max(1, shown.first - MAX_WINDOW_LINES),
        "after": shown.last + 1,
        "levels": LEVELS_SHOWN,
        "level_word": dict(LEVELS_SHOWN).get(only.level, ""),
        "has_times": "at" not in hidden and any(row.time for row in shown.lines),
        "has_who": "who" not in hidden and any(row.who for row in shown.lines),
        "moment": _moment(shown.lines, here),
        "next_evidence": next((n for n in shown.evidence if n > here), None),
        "previous_evidence": next((n for n in reversed(shown.evidence) if n < here), None),
    }
    return render(request, "triage/log.html", context)


def _moment(lines: list[LogLine], here: int) -> datetime | None:
    """When the line ``here`` was written: its own time, or that of the nearest line with one."""
    timed = [(abs(row.no - here), row.time) for row in lines if row.time]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


@require_GET
def log_templates(request: HttpRequest, slug: str, attempt: int, path: str) -> HttpResponse:
    """The messages of the whole file, parameters masked, the most frequent first: a fragment of the log's page."""
    job, artifact = _artifact(request, slug, attempt, path)
    context = {"job": job, "artifact": artifact, "found": templates_of([artifact], text_search_of(request)[0])}
    return render(request, "triage/log_templates.html", context)


@require_GET
def log_minimap(request: HttpRequest, slug: str, attempt: int, path: str) -> HttpResponse:
    """The positions of warnings, errors, evidence and the window ``first`` to ``last``: a fragment of its page."""
    job, artifact = _artifact(request, slug, attempt, path)
    total = artifact.lines or 1
    marks = [round(1000 * no / total, 1) for no in evidence_lines(artifact)[:500]]
    first, last = _number(request, "first", 1), _number(request, "last", 1)
    context = {
        "job": job,
        "artifact": artifact,
        "bins": log_map(artifact),
        "marks": marks,
        "height": HEIGHT,
        "here": (round(1000 * (first - 1) / total, 1), max(2, round(1000 * (last - first + 1) / total, 1))),
        "first": first,
    }
    return render(request, "triage/log_minimap.html", context)


@require_GET
@_needs_bytes
def log_context(request: HttpRequest, slug: str, attempt: int, path: str) -> HttpResponse:
    """One line and ``around`` lines before and after it, for another page."""
    job, artifact = _artifact(request, slug, attempt, path)
    line = _number(request, "line", 1)
    around = min(_number(request, "around", _MAX_AROUND), _MAX_AROUND)
    first = max(1, line - around)
    shown = window(artifact, start=first, count=line - first + around + 1)
    context = {"job": job, "artifact": artifact, "window": shown, "line": line}
    context["moment"] = _moment(shown.lines, line) if around else None
    context["words"] = request.GET.get("find", "")[:500]
    return render(request, "triage/log_context.html", context)


@require_GET
@_needs_bytes
def log_find(request: HttpRequest, slug: str, attempt: int, path: str) -> JsonResponse:
    """One step of a search through the bytes: matches, and where to continue."""
    _, artifact = _artifact(request, slug, attempt, path)
    text_search, problem = text_search_of(request, "words")
    if text_search is None:
        return JsonResponse({"problem": problem or "Say what to look for."}, status=422)
    return JsonResponse(find(artifact, text_search, offset=_number(request, "cursor")))


@require_GET
def log_instant(request: HttpRequest, slug: str, attempt: int, path: str) -> HttpResponse:
    """The lines of all logs of the attempt around the time ``at``, or that of ``line``, in time order.

    ``within`` seconds around it; ``level`` and ``who`` filter it.
    """
    job, artifact = _artifact(request, slug, attempt, path)
    line = _number(request, "line")
    common = AttemptFacts(artifact.attempt)
    moment = (moment_of(artifact, line, common) if line else None) or instant(request.GET.get("at"))
    if moment is None:
        raise BadRequest("The address needs ?at=<time>, as in 2026-11-01T03:12:07+00:00.")
    logs = evidence.artifacts_of(job).filter(attempt=artifact.attempt, kind__in=LOG_KINDS)
    within = _number(request, "within", 2)
    within = within if within in WITHIN_S else 2
    only = Filter(_number(request, "level"), request.GET.get("who", "")[:200])
    artifacts = list(logs[: MAX_LOGS + 1])
    context = {
        "nav": "jobs",
        "job": job,
        "artifact": artifact,
        "line": line,
        "moment": moment,
        "found": same_instant(artifacts[:MAX_LOGS], common, moment, within_s=within, only=only),
        "only": only,
        "each": MAX_LINES_OF_FILTER if only.who else MAX_LINES_A_WRITER,
        "limit": MAX_LINES,
        "levels": LEVELS_SHOWN,
        "within": within,
        "reaches": WITHIN_S,
        "at": moment.isoformat(),
        "of": len(artifacts[:MAX_LOGS]),
        "is_cut": len(artifacts) > MAX_LOGS,
        "kept": urlencode({k: request.GET[k] for k in ("within", "level", "who") if request.GET.get(k)}),
    }
    return render(request, "triage/log_instant.html", context)


@require_GET
@_needs_bytes
def log_raw(request: HttpRequest, slug: str, attempt: int, path: str) -> StreamingHttpResponse:
    """The original bytes, all or of the lines ``from`` to ``to``; always a download, never a page."""
    _, artifact = _artifact(request, slug, attempt, path)
    begin, end = 0, artifact.blob.size_bytes
    if first := _number(request, "from"):
        begin, end = _byte_range(artifact, first, _number(request, "to", first))
    evidence.read_range(artifact, begin, 1)  # report lost bytes before the answer begins

    def blocks() -> Iterator[bytes]:
        at = begin
        while at < end:
            block = evidence.read_range(artifact, at, min(_BLOCK, end - at))
            if not block:
                return
            yield block
            at += len(block)

    response = StreamingHttpResponse(blocks(), content_type="application/octet-stream")
    response.is_lazy = True  # type: ignore[attr-defined]  # read from the store as the client takes it, by any thread
    response["Content-Length"] = str(end - begin)
    name = artifact.path.rsplit("/", 1)[-1]
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response


def _byte_range(artifact: Artifact, first: int, last: int) -> tuple[int, int]:
    lines = evidence.lines_of(artifact)
    if lines is None:
        return 0, artifact.blob.size_bytes
    near = stored_rows.scan(lines.part(first - 1, max(1, last - first + 1)))
    rows = near.select(["offset", "length"]).collect()
    if rows.is_empty():
        raise Http404(f"The file has {artifact.lines:,} lines.")
    end = int(rows["offset"][-1] + rows["length"][-1]) + 1
    return int(rows["offset"][0]), min(end, artifact.blob.size_bytes)
