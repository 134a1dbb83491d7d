"""How bodies and headers are read: pace, room for small bodies, and the environment of a request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.triage.connections import Line
from triage.server.body_reader import Pace, SmallBodies, TooSlow
from triage.server.environ import body_length, environ_of


def test_a_pace_counts_only_the_senders_time() -> None:
    now = [0.0]
    pace = Pace(100, 1000, window_s=10, clock=lambda: now[0])
    now[0] = 9.0
    pace.check(1000)
    now[0] = 10.5
    pace.check(1)  # a new window begins
    pace.pause(60)  # the disk was slow
    now[0] = 75.0
    pace.check()
    now[0] = 85.0
    with pytest.raises(TooSlow):
        pace.check(5)


async def others_go_on() -> None:
    """Every task of the loop gets as far as it can without waiting for bytes or time."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_the_oldest_of_too_many_small_bodies_makes_room() -> None:
    async def all_three() -> tuple[list[Any], int]:
        waiting = SmallBodies(2)
        lines = [Line("POST", "/", b"a", length=9) for _ in range(2)]
        for line in lines:
            line.goes_silent = True
        slow = [asyncio.ensure_future(waiting.read(line.receive, Pace(0, 60), 9)) for line in lines]
        await others_go_on()
        quick = await waiting.read(Line("POST", "/", b"quick").receive, Pace(0, 60), 9)
        await others_go_on()
        ends = [task.done() and type(task.exception()) for task in slow]
        slow[1].cancel()
        return [quick, *ends], len(waiting)

    assert asyncio.run(all_three())[0] == [b"quick", TooSlow, False]


def test_the_environment_has_the_bytes_of_the_address_and_no_header_that_passes_for_another() -> None:
    scope = Line("GET", "/jobs/%C3%A9%2F/?q=%20", x_forwarded_proto="http").scope
    scope["headers"] += [(b"x_forwarded_proto", b"https"), (b"cookie", b"a=1"), (b"cookie", b"b=2")]
    keys = environ_of(scope)
    assert keys["PATH_INFO"].encode("latin-1") == "/jobs/é//".encode()
    assert (keys["QUERY_STRING"], keys["HTTP_COOKIE"]) == ("q=%20", "a=1; b=2")
    assert keys["HTTP_X_FORWARDED_PROTO"] == "http"
    assert keys["CONTENT_LENGTH"] == "0"
    assert body_length(scope) == 0
