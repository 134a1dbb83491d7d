"""The command-line client as one file, so that a compute node needs only Python and this site."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import condition, require_safe

from triage.places import CLIENT

_SHEBANG = b"#!/usr/bin/env python3\n"
_START = "import runpy\nrunpy.run_module('faultline', run_name='__main__')\n"


@cache
def program() -> bytes:
    """The client's sources as an executable archive (zipapp). Equal sources give equal bytes."""
    sources = sorted(CLIENT.glob("*.py"))
    out = io.BytesIO(_SHEBANG)
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (("__main__.py", _START), *((f"faultline/{s.name}", s.read_text()) for s in sources)):
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _etag(_: HttpRequest) -> str:
    return f'"{hashlib.sha256(program()).hexdigest()[:32]}"'


@require_safe
@login_not_required
@condition(etag_func=_etag)
def download(request: HttpRequest) -> HttpResponse:
    """Open to everybody: it has no data of this site, and nodes download it without signing in."""
    return HttpResponse(
        program(),
        content_type="application/zip",
        headers={"Content-Disposition": 'attachment; filename="faultline.pyz"'},
    )
