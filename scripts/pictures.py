"""Makes the README's picture of an incident, and those of integrations in `docs/pictures/`: `python -m
scripts.pictures` (a browser, no network).

Loads samples of the demonstration into an empty site, and sends messages to stand-ins on this machine for a chat, a
tracker and a language model. The clock starts at a fixed time, so that a second run changes little. The browser is
Debian's Chromium, or the one that `FAULTLINE_CHROMIUM` names.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from scripts.chromium import find_or_install
from scripts.scratch import ROOT, scratch_site

SIZE = {"width": 900, "height": 640}
#: of the README's picture, a whole window
README_SIZE = {"width": 1280, "height": 1080}
#: enough for pages in the light scheme
COLOURS = 64
#: shortly after the recordings
STARTS_AT = dt.datetime(2026, 11, 21, 10, tzinfo=dt.UTC)
SAMPLES = ("healthy_ddp_a", "healthy_ddp_b", "sigkill_rank5", "hang_dataloader")
ISSUE = {"number": 412, "html_url": "https://github.com/acme/cluster-ops/issues/412", "state": "open"}


class Picture(NamedTuple):
    """A picture of what ``part`` selects on the page ``path``, after ``act``."""

    name: str
    path: str
    part: str = "main"
    act: Callable[[Any], None] = lambda page: None


def main() -> int:
    with _fake_services() as outside:
        variables = {
            "FAULTLINE_DEBUG": "1",
            "FAULTLINE_SITE_URL": "https://faultline.example",
            "FAULTLINE_ROUTES_ALLOW": "127.0.0.1",
            "FAULTLINE_LOG_LEVEL": "CRITICAL",
            "FAULTLINE_SUMMARY_URL": outside,
            "FAULTLINE_SUMMARY_MODEL": "llama-3.3-70b",
            # the browser's driver keeps an event loop in its thread, which makes Django think the code asynchronous
            "DJANGO_ALLOW_ASYNC_UNSAFE": "1",
        }
        with scratch_site(**variables):
            import time_machine  # a development package

            with time_machine.travel(STARTS_AT):
                shown = _fill(outside)
            with time_machine.travel(STARTS_AT + dt.timedelta(minutes=2)):
                _take(*shown)
    return 0


def _fill(outside: str) -> tuple[Any, list[Picture]]:
    """The rows that the pictures show: who looks, and at what."""
    # Models can be imported only after the settings were read.
    from celery import current_app
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group

    from ingest.models import Node
    from triage.models import Incident, Route
    from triage.services import outbox, routes, samples, summarising, tickets

    current_app.conf.task_always_eager = True
    settings.READING_IS_APART = False
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    user = get_user_model().objects.create_user("mara")
    user.groups.set(Group.objects.filter(name__in=("engineer", "manager")))
    for stem in SAMPLES:
        samples.sample_load(stem=stem, user=user)
    incident = Incident.objects.get(job__slug=samples.sample_slug("sigkill_rank5"))
    chat = routes.route_save(by=user, name="Training alerts", kind="slack", url=f"{outside}/services/T0/B0/x")
    test = _with_fixed_times(outbox.ping(route=chat))
    tracker = routes.route_save(
        by=user,
        name="Cluster team",
        kind="github",
        url=outside,
        secret="t",
        options={"project": "acme/cluster-ops", "labels": "training"},
    )
    tickets.ticket_ask(route_id=tracker.pk, about=incident, by=user)
    node = Node.objects.get(suspicions__incident=incident, suspicions__is_accused=True)
    tickets.ticket_ask(route_id=tracker.pk, about=node, by=user)
    pager = Route.objects.create(  # by itself: there is no network to look the host up
        owner=user,
        name="On-call",
        kind="pagerduty",
        url="https://events.pagerduty.com/v2/enqueue",
        secret="k" * 32,
        events=["incident.opened", "incident.regressed", "incident.updated"],
    )
    summarising.summary_make(incident)
    Route.objects.filter(pk=chat.pk).update(url="https://hooks.slack.com/services/T0/B0/x")
    page = f"/incidents/{incident.pk}/"
    return user, [
        Picture("route-new", "/routes/new/slack/"),
        Picture("preview", "/routes/new/slack/", "#preview", _preview),
        Picture("test", f"/routes/{chat.pk}/deliveries/{test.pk}/", act=_without_event),
        Picture("route", f"/routes/{pager.pk}/"),
        Picture("tracker-new", "/routes/new/github/"),
        Picture("tickets", f"{page}tickets/", "#tickets"),
        Picture("node-ticket", page, ".suspect", _open_history),
        Picture("token-restart", "/account/tokens/", "main .panel", _token_of_a_controller),
        Picture("token-assistant", "/account/tokens/", "main .panel", _token_of_an_assistant),
        Picture("advice", page, ".answer-now"),
        Picture("summary", f"{page}summary/", "#model-summary"),
    ]


def _with_fixed_times(sent: Any) -> Any:
    """The message with an id and times that are the same in each run."""
    rows = type(sent).objects.filter(pk=sent.pk)
    tries = [{**one, "at": STARTS_AT.isoformat(), "ms": 140} for one in rows.get().attempts]
    rows.update(id=uuid.UUID(int=17 << 64), created_at=STARTS_AT, attempts=tries)
    return type(sent).objects.get(pk=uuid.UUID(int=17 << 64))


def _open_history(page: Any) -> None:
    page.locator(".suspect summary:has-text('History')").first.click()


def _without_event(page: Any) -> None:
    page.locator("section:has(#body-title)").evaluate("section => section.remove()")


def _preview(page: Any) -> None:
    page.fill("input[name=query]", "category:hardware")
    page.click("text=Preview the last week")
    page.wait_for_selector("#preview-title")


def _token_of_a_controller(page: Any) -> None:
    page.fill("input[name=name]", "restart controller")
    page.check("input[value=upload]")
    page.locator("h1").click()


def _token_of_an_assistant(page: Any) -> None:
    page.fill("input[name=name]", "my assistant")
    page.locator("h1").click()


def _take(user: Any, pictures: list[Picture]) -> None:
    from django.conf import settings
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.core.wsgi import get_wsgi_application
    from django.test import Client
    from playwright.sync_api import sync_playwright

    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    server = make_server("127.0.0.1", 0, StaticFilesHandler(get_wsgi_application()), _Server, _Quiet)
    with _serving(server) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_or_install(), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": base}])
        for one in pictures:
            page.goto(base + one.path)
            one.act(page)
            raw = page.locator(one.part).first.screenshot(animations="disabled")
            path = ROOT / "docs" / "pictures" / f"{one.name}.png"
            path.write_bytes(_small(raw))
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")
        _take_for_readme(page, base + next(one.path for one in pictures if one.name == "advice"))
        browser.close()


def _take_for_readme(page: Any, address: str) -> None:
    from PIL import Image  # a development package

    page.set_viewport_size(README_SIZE)
    page.goto(address, wait_until="networkidle")
    page.locator(".notice.demonstration").evaluate("notice => notice.remove()")
    path = ROOT / "docs" / "incident.webp"
    with Image.open(io.BytesIO(page.screenshot(animations="disabled"))) as image:
        image.convert("RGB").save(path, "WEBP", quality=80, method=6)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


def _small(png: bytes) -> bytes:
    """The picture with a palette."""
    from PIL import Image  # a development package

    with Image.open(io.BytesIO(png)) as image:
        out = io.BytesIO()
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        return


class _Outside(BaseHTTPRequestHandler):
    """Answers as a chat, a tracker or a language model does."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = b"ok" if self.path.startswith("/services/") else json.dumps(_answer(self.path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        return


def _answer(path: str, body: bytes) -> Any:
    if "chat/completions" not in path:
        return ISSUE
    evidence = json.loads(json.loads(body)["messages"][1]["content"])["evidence"]
    words = {
        "failed (exitcode": "One worker failed, as the elastic agent reports.",
        "Signal 9": "It was killed from outside.",
    }
    sentences = [
        {"text": said, "cites": [{"n": line["n"], "quote": line["text"]}]}
        for part, said in words.items()
        for line in [next(line for line in evidence if part in line["text"])]
    ]
    return {"choices": [{"message": {"content": json.dumps({"sentences": sentences})}}]}


@contextmanager
def _serving(server: Any) -> Iterator[str]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@contextmanager
def _fake_services() -> Iterator[str]:
    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), _Outside)) as url:
        yield url


if __name__ == "__main__":
    raise SystemExit(main())
