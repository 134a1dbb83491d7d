"""The documents that this installation has, read once and again when a file changes."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.urls import reverse

from triage.manual.rendering import Document, Target, render
from triage.places import RESOURCES

_FOLDER = RESOURCES / "docs"
#: The list of all documents: the first page of the help.
CONTENTS = "README"
_PICTURES = {".png": "image/png", ".webp": "image/webp", ".svg": "image/svg+xml"}
_LISTED = re.compile(r"\]\(([\w-]+)\.md\)")


def document(name: str) -> Document | None:
    """The document of this name, without `.md`; None if there is none. Only names of ``docs/*.md`` are looked up."""
    path = _documents().get(name)
    return _rendered(path, path.stat().st_mtime_ns) if path else None


def documents() -> list[Document]:
    """All documents in the order of the contents. The first call renders them all: about a second of processor time."""
    return [found for name in _order() if (found := document(name))]


def picture(name: str) -> tuple[Path, str] | None:
    """File and media type of a picture of ``docs/``; None if there is none of this name."""
    path = _files().get(name)
    kind = _PICTURES.get(path.suffix) if path else None
    return (path, kind) if path and kind else None


def help_url(name: str = CONTENTS, anchor: str = "") -> str:
    """The path of a document on the site."""
    path = reverse("help") if name == CONTENTS else reverse("help-document", args=[name])
    return f"{path}#{anchor}" if anchor else path


def help_link(name: str, anchor: str = "") -> str:
    """The whole address of a document, for answers that are read outside of a browser."""
    return settings.SITE_URL.rstrip("/") + help_url(name, anchor)


@lru_cache(maxsize=128)
def _rendered(path: Path, changed_at_ns: int) -> Document:
    return render(path.stem, path.read_text(encoding="utf-8"), _target)


def _order() -> list[str]:
    """Names of documents as the contents list them, then others."""
    names = _documents()
    listed = _LISTED.findall(names[CONTENTS].read_text(encoding="utf-8")) if CONTENTS in names else []
    return list(dict.fromkeys([*(name for name in listed if name in names), *names]))


def _documents() -> dict[str, Path]:
    return {path.stem: path for path in sorted(_FOLDER.glob("*.md"))}


def _files() -> dict[str, Path]:
    """Every file of the folder, by its path in it: what is not a key here is not read."""
    return {path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob("*") if path.is_file()}


def _target(link: str) -> Target | None:
    """Where a link or picture of a document leads on the site; None for files that the site does not show."""
    if re.match(r"[a-z]+:|#", link):
        return Target(link)
    file, _, anchor = link.partition("#")
    if file == "openapi.yaml":
        return Target(reverse("api-docs"))
    if file == "glossary.md":
        return Target(reverse("glossary"), "Glossary")
    path = _documents().get(file.removesuffix(".md"))
    if path:
        return Target(help_url(path.stem, anchor), _title(path))
    found = picture(file)
    return Target(reverse("help-picture", args=[file]), size=_size(found[0])) if found else None


def _size(path: Path) -> tuple[int, int] | None:
    """Width and height of a PNG from its first chunk; None for other pictures."""
    with path.open("rb") as file:
        head = file.read(24)
    if not head.startswith(b"\x89PNG") or len(head) < 24:
        return None
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def _title(path: Path) -> str:
    """The first line, which is the title, of a document."""
    with path.open(encoding="utf-8") as lines:
        return lines.readline().strip("# \n")
