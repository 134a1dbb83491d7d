"""Writes docs/openapi.yaml from the code; with --check, fails if the file is out of date."""

from __future__ import annotations

import difflib
import os
import sys
from typing import Any

from triage.places import ROOT

SCHEMA = ROOT / "docs" / "openapi.yaml"


def current() -> tuple[str, list[str]]:
    """The schema as YAML, and the generator's warnings about views that it does not understand."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
    import django  # noqa: PLC0415

    django.setup()
    from drf_spectacular.drainage import GENERATOR_STATS  # noqa: PLC0415  # after setup
    from drf_spectacular.generators import SchemaGenerator  # noqa: PLC0415
    from drf_spectacular.renderers import OpenApiYamlRenderer  # noqa: PLC0415

    generator: Any = SchemaGenerator
    renderer: Any = OpenApiYamlRenderer
    with GENERATOR_STATS.silence():
        schema = generator().get_schema(request=None, public=True)
    caches = (GENERATOR_STATS._warn_cache, GENERATOR_STATS._error_cache)
    complaints = [message for cache in caches for message in cache]
    return renderer().render(schema, renderer_context={}).decode(), complaints


def main(arguments: list[str]) -> int:
    schema, complaints = current()
    for complaint in complaints:
        print(complaint)
    if arguments != ["--check"]:
        SCHEMA.write_text(schema)
        return 0
    kept = SCHEMA.read_text() if SCHEMA.exists() else ""
    pair = (kept.splitlines(), schema.splitlines(), "docs/openapi.yaml", "the code")
    drift = list(difflib.unified_diff(*pair, lineterm="", n=1))
    if drift:
        print("\n".join(drift[:40]))
        print("docs/openapi.yaml is out of date: run `.venv/bin/python -m scripts.openapi` and commit it.")
    return 1 if drift or complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
