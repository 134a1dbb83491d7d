"""Seconds from the alarm of a hang to the name of the rank that caused it: ``python -m lab.measure named_rank [--ranks
4096] [--followers 512]``.

Time is simulated. Real are: what tells the alarm and when its incident is written again (:mod:`diagnosis.live`), when
followers ask the site and how often they take stacks (the client's ``Taker``), how often the site lets them ask, and
the analysis of the stacks that have come by then, whose processor time counts. Assumed: seconds for one dump, for
sending, and until a worker takes a diagnosis (see the options). The site's own work on the files does not count.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diagnosis.evidence import StackFinding, decode
from diagnosis.kinds.stacks import diagnose_stacks, parse_stack
from diagnosis.live import JobState, judge, learn, new_state, record
from diagnosis.model import HANG_ALARM, Parsed, ParseHints
from lab.exams.stacks.exam import Dumps, large
from lab.measure.live_jobs import Line, observations

ROOT = Path(__file__).resolve().parents[2]
#: A follower looks at its files so often; after the hang so many seconds are simulated.
_FOLLOW_S, _TRAINED_S, _HUNG_S = 2.0, 3_600.0, 900.0


@dataclass
class Clock:
    """The simulated time; stands for the module ``time`` in the client."""

    now: float = 0.0
    #: what the client asks of its module ``time``
    other: Any = time

    def monotonic(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(self.other, name)


@dataclass
class Alarmed:
    """When the job hung, its alarm was raised and its incident was written."""

    hung_at: float
    raised_at: float = 0.0
    written_at: list[float] = field(default_factory=list)


def alarmed(step_s: float) -> Alarmed:
    """The alarm of a job that trains for an hour and then hangs."""
    times = [step_s * n for n in range(1, int(_TRAINED_S / step_s))]
    told = Alarmed(times[-1])
    lines = (Line(at, counter=number) for number, at in enumerate(times, 1))
    state: JobState = new_state(0.0)
    for now, observation in observations(lines, told.hung_at + _HUNG_S):
        if observation.lines:
            learn(state, "a", observation, now)
        is_news = record(state, alarms := judge(state, now), now)
        if not any(alarm.kind == HANG_ALARM for alarm in alarms):
            continue
        told.raised_at = told.raised_at or now
        if is_news:
            told.written_at.append(now)
    return told


def dumps_come_at(told: Alarmed, followers: int, dump_s: float, send_s: float) -> list[float]:
    """When the first stacks of each follower are on the site, in seconds from the alarm."""
    sys.path.insert(0, str(ROOT / "client"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
    import django  # needs the settings

    django.setup()
    from faultline import taking  # needs the path
    from faultline.site import Reply
    from ingest.selectors.wanted import seconds_between_questions

    again_s = seconds_between_questions(followers)

    class Site:
        """Answers as ``/wanted/`` does."""

        def get(self, path: str) -> Reply:
            is_open = clock.now >= told.raised_at
            row = {"kind": "stacks", "attempt": 0, "since": "the hang"}
            return Reply(200, {}, {"wanted": [row] if is_open else [], "ask_again_s": again_s})

    class Taker(taking.Taker):
        """Notes when it takes stacks."""

        def _stacks(self) -> None:
            taken.append(clock.now)

    clock = Clock()
    setattr(taking, "time", clock)  # noqa: B010  # a module's name is no attribute to the checker
    dice, arrivals = random.Random(1), []
    for number in range(followers):
        taken: list[float] = []
        clock.now = told.raised_at - 200 + dice.uniform(0, again_s)
        taker = Taker(Site(), "job", attempt=0, prefix=f"n{number}/", root=None, note=print)  # type: ignore[arg-type]
        while not taken:
            list(taker.sources())
            clock.now += _FOLLOW_S
        arrivals.append(taken[0] + dump_s + send_s - told.raised_at)
    setattr(taking, "time", time)  # noqa: B010
    return sorted(arrivals)


def named_at(
    told: Alarmed, arrivals: list[float], dumps: Dumps, start_s: float
) -> Iterator[tuple[float, int, float, bool]]:
    """For each writing of the incident: seconds from the alarm, followers whose stacks were there, seconds until the
    diagnosis was done, and whether it named the rank.
    """
    files = list(dumps.files.items())
    random.Random(2).shuffle(files)  # the culprit's stacks come as late as any
    for at in told.written_at:
        age = at - told.raised_at
        come = sum(arrival <= age for arrival in arrivals)
        began = time.process_time()
        shown = files[: len(files) * come // len(arrivals)] if come < len(arrivals) else files
        parsed: list[Parsed] = [parse_stack(io.BytesIO(data), path, ParseHints(), Path()) for path, data in shown]
        found = decode(diagnose_stacks(parsed, layout=dumps.layout), StackFinding) if parsed else None
        took = start_s + time.process_time() - began
        is_named = found is not None and set(found.suspect_ranks) == dumps.ranks
        yield age, come, age + took, is_named
        if is_named:
            return


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--followers", type=int, nargs="+", default=[512], help="one a machine, or one a rank")
    parser.add_argument("--step-s", type=float, nargs="+", default=[2.0, 10.0, 30.0])
    parser.add_argument("--dump-s", type=float, default=1.0, help="for one process")
    parser.add_argument("--send-s", type=float, default=1.0, help="until the site has the files of a machine")
    parser.add_argument("--start-s", type=float, default=2.0, help="until a worker begins the diagnosis")
    args = parser.parse_args(arguments)
    dumps = large(args.ranks, bundled=False)
    for followers in args.followers:
        for step_s in args.step_s:
            told = alarmed(step_s)
            of_machine = args.dump_s * args.ranks / followers
            arrivals = dumps_come_at(told, followers, of_machine, args.send_s)
            print(
                f"{args.ranks} ranks, {followers} followers, a step in {step_s:.0f} s: alarm "
                f"{told.raised_at - told.hung_at:.0f} s after the last step; stacks on the site "
                f"{arrivals[0]:.0f} to {arrivals[-1]:.0f} s after it"
            )
            for age, come, done, is_named in named_at(told, arrivals, dumps, args.start_s):
                what = "the rank is named" if is_named else "not named"
                print(f"  incident written at {age:.0f} s with stacks of {come}: {what} after {done:.0f} s")


if __name__ == "__main__":
    main()
