"""Makes the pictures of routes in `docs/pictures/`: `python -m scripts.pictures` (a browser, no network).

The browser is Debian's Chromium, or the one that `FAULTLINE_CHROMIUM` names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

ROOT = Path(__file__).resolve().parent.parent
SIZE = {"width": 1000, "height": 620}


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        return


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="faultline-pictures-") as folder:
        os.environ |= {
            "DATABASE_URL": f"sqlite:///{folder}/db.sqlite3",
            "FAULTLINE_DATA_DIR": folder,
            "FAULTLINE_DEBUG": "1",
            "FAULTLINE_SITE_URL": "https://faultline.example",
            "FAULTLINE_ROUTES_ALLOW": "127.0.0.1",
            "FAULTLINE_LOG_LEVEL": "ERROR",
            "DJANGO_SETTINGS_MODULE": "triage.settings",
        }
        subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], check=True, cwd=ROOT)
        import django

        django.setup()
        _take()
    return 0


def _take() -> None:
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.core.wsgi import get_wsgi_application
    from django.test import Client
    from playwright.sync_api import sync_playwright

    from triage.models import Route

    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    user = get_user_model().objects.create_user("mara")
    user.groups.add(Group.objects.get(name="manager"))
    events = ["incident.opened", "incident.regressed", "incident.updated"]
    url = "https://events.pagerduty.com/v2/enqueue"
    route = Route.objects.create(owner=user, name="On-call", kind="pagerduty", url=url, secret="k", events=events)
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    server = make_server("127.0.0.1", 0, StaticFilesHandler(get_wsgi_application()), _Server, _Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    with sync_playwright() as playwright:
        program = os.environ.get("FAULTLINE_CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": base}])
        pages = {"route-new": "/routes/new/slack/", "route": f"/routes/{route.pk}/"}
        for name, path in pages.items():
            page.goto(base + path)
            page.screenshot(path=ROOT / "docs" / "pictures" / f"{name}.png", animations="disabled")
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    raise SystemExit(main())
