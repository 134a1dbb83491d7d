"""Output of the client: exit codes, notes, progress, results."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from typing import Any

from faultline import sending

#: what is hidden, acts on a terminal or changes the direction of text: a copy of `diagnosis.values.plain.HIDDEN`
HIDDEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{HIDDEN}]")
DONE, SOME_REFUSED, WRONG_CALL, DENIED, UNREACHABLE, NOT_DIAGNOSED, WAITED_OUT = range(7)
CODES = """exit codes:
  0  the site has all files (with --wait: and diagnosed them)
  1  some files were refused or could not be read; the site has the others
  2  wrong call
  3  the site does not accept the token, or its owner may not do this
  4  the site could not be reached, or was busy longer than --retry-for; run it again, it continues where it stopped
  5  --wait: the diagnosis failed, or there was nothing to diagnose
  6  --wait: not done in time; the site continues

environment: FAULTLINE_URL, FAULTLINE_TOKEN, FAULTLINE_TOKEN_FILE; proxies as usual (https_proxy, no_proxy)"""


class UsageError(Exception):
    """A wrong call, explained in one sentence."""


class Words:
    """Notes and progress go to standard error, the result to standard output."""

    def __init__(self, *, is_quiet: bool, is_json: bool) -> None:
        self.result: dict[str, Any] = {}
        self.refused: list[sending.Outcome] = []
        self._is_quiet = is_quiet
        self._is_json = is_json
        self._is_live = sys.stderr.isatty() and not is_quiet
        self._counts = {"sent": 0, "known": 0, "refused": 0}
        self._files = 0
        self._bytes = 0
        self._shown_at = 0.0
        self._is_shown = ""
        self._lock = threading.Lock()

    def note(self, words: str) -> None:
        self._clear()
        print(f"faultline: {visible(words)}", file=sys.stderr, flush=True)

    def line(self, words: str) -> None:
        if words and not self._is_quiet and not self._is_json:
            self._clear()
            print(visible(words), flush=True)

    def begin(self, count: int) -> None:
        self._files = count

    def bytes(self, count: int) -> None:
        with self._lock:
            self._bytes += count
            done = sum(self._counts.values())
        self.progress(f"{done:,} of {self._files:,} files, {_size(self._bytes)}")

    def file(self, outcome: sending.Outcome) -> None:
        self._counts[outcome.state] += 1
        if outcome.problem:
            self.refused.append(outcome)
            self.note(outcome.problem)

    def progress(self, words: str) -> None:
        if self._is_live and time.monotonic() - self._shown_at > 0.2:
            self._shown_at, self._is_shown = time.monotonic(), words
            print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)

    def summary(self) -> None:
        counts = self._counts
        self.result.update(
            sent=counts["sent"],
            known=counts["known"],
            refused=[{"path": row.name, "problem": row.problem} for row in self.refused],
            bytes=self._bytes,
        )
        there = f", {counts['known']:,} were there already" if counts["known"] else ""
        refused = f", {counts['refused']:,} refused" if counts["refused"] else ""
        self.line(f"{counts['sent']:,} sent{there}{refused}: {self.result['url']}")

    def end(self, code: int, problem: str = "") -> int:
        if problem:
            self.note(problem)
            self.result["error"] = problem
        if self._is_json:
            print(json.dumps({"code": code, **self.result}), flush=True)
        return code

    def _clear(self) -> None:
        if self._is_shown:
            self._is_shown = ""
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def visible(words: str) -> str:
    """Text without characters that are hidden or act on the terminal: file names may contain any."""
    return _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", words)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
