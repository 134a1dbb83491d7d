"""One made-up job while it is being written: machines, clocks, voices and lines with their part in the failure."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.exams.sealed.first.dice import CLOCK, Dice, stamp
from lab.exams.sealed.first.facts import Facts

#: ``kR text``: the stream (k kernel, e stderr, o stdout, I W E the logger, s scheduler, x switch, T traceback) and the
#: role (R root, S secondary, C context, - none).
_LINE = re.compile(r"([keoIWEsxT])([RSC-]) ?(.*)", re.DOTALL)
_ROLES = {"R": "root", "S": "secondary", "C": "context", "-": ""}
_FIELD = re.compile(r"\{(\w+)\}")
STAGES = ("launch", "rendezvous", "model_build", "checkpoint_load")

type Group = list[str]


@dataclass(frozen=True)
class Line:
    """One physical line; ``tid`` tells its message from others."""

    at: float
    order: int
    node: int | None
    rank: int | None
    stream: str
    text: str
    role: str
    tid: str
    attempt: int


@dataclass
class World:
    """Times are seconds since the job's start on a true clock; ``skew`` is what a machine's clock is ahead."""

    dice: Dice
    voice: dict[str, Any]
    shared: dict[str, Any]
    lines: list[Line] = field(default_factory=list)
    now: float = 0.0
    attempt: int = 0
    gone: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng: random.Random = self.dice.rng
        self.n: int = self.dice.first_n
        self.told: int = self.n
        self.saved: int = self.n
        self.marked: tuple[int, int | None] | None = None
        self.took: float = self.dice.step_s
        self.is_told = False
        self.limit = self.voice.get("reporter", 0) % self.dice.world

    # ---- texts

    def fill(self, text: str, told: Mapping[str, Any], at: float, node: int | None) -> str:
        """Texts with their facts; what is no fact stays."""
        skew = self.dice.skew.get(-1 if node is None else node, 0.0)

        def field(match: re.Match[str]) -> str:
            name = match[1]
            if name in CLOCK:
                return str(stamp(self.dice.t0 + at + skew, self.dice.zone, at)[name])
            try:
                return str(told[name])
            except KeyError:
                return match[0]

        return _FIELD.sub(field, text)

    # ---- lines

    def put(self, at: float, rank: int | None, line: str, told: Facts, tid: str) -> None:
        """One line of a text in the notation of this module."""
        stream, role, text = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]
        node = None if rank is None or stream in "sx" else rank // self.dice.per
        if node in self.gone:
            return
        text = self.fill(text, told, at, node)
        if stream == "T":
            for k, row in enumerate(self.frames(text, told)):
                self.add(at + 1e-4 * k, node, rank, "e", self.fill(row, told, at, node), _ROLES[role], tid)
            return
        if stream in "IWE" and node is not None:
            text = self.head(stream, text, told, at, node)
        self.add(at, node, None if stream in "ksx" else rank, stream, text, _ROLES[role], tid)

    def add(self, at: float, node: int | None, rank: int | None, stream: str, text: str, role: str, tid: str) -> None:
        """Keeps a line as it is."""
        self.lines.append(Line(at, len(self.lines), node, rank, stream, text, role, tid, self.attempt))

    def head(self, level: str, text: str, told: Facts, at: float, node: int) -> str:
        """A message as the programme's logger writes it."""
        words = dict(zip("IWE", self.voice["levels"], strict=True))
        pattern = self.voice["head"][self.dice.dialect % len(self.voice["head"])]
        kind = sum(map(ord, [c for c in text if c.isalpha()][:9]))
        name = self.voice["loggers"][kind % len(self.voice["loggers"])]
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        told.update(level=words[level], logger=name, lineno=40 + kind * 7 % 500, text=text, json=escaped)
        return self.fill(pattern, told, at, node)

    def frames(self, key: str, told: Facts) -> list[str]:
        """The frames of a traceback through the programme, innermost last."""
        stack = self.voice["stack"]
        if stack == "rust":
            return []
        rows = ["Traceback (most recent call last):"]
        for k, entry in enumerate([*self.voice["frames"]["main"], *self.voice["frames"].get(key, [])]):
            path, line, name, code = entry.split("|")
            rows += [f'  File "{path}", line {line}, in {name}', f"    {code}"]
            if self.dice.has_carets and k % 2:
                rows.append("    " + "^" * len(code))
        return [self.tagged(row, told) for row in rows]

    def tagged(self, text: str, told: Facts) -> str:
        """What the exception hook of newer versions puts before every line."""
        return f"[rank{told['rank']}]: {text}" if self.dice.is_tagged else text

    # ---- groups of lines

    def pick(self, group: Any, key: str) -> Group:
        """The variant of a group for this voice; the same for every writer of a job."""
        for word in (self.voice["name"], self.dice.scheduler, self.voice["stack"], self.dice.vendor, "any"):
            if isinstance(group, list):
                break
            if word in group:
                group = group[word]
        variants: list[Group] = group
        return variants[random.Random(f"{self.dice.seed}{key}").randrange(len(variants))]

    def emit(self, ranks: Iterable[int], group: Any, key: str, over: float = 0.0, after: float = 0.0) -> None:
        """Lets ranks write a group of lines, each within ``over`` seconds."""
        chosen = self.pick(group, key)
        for rank in ranks:
            at, told, traced = self.now + after + self.rng.random() * over, Facts(self, rank), False
            for k, line in enumerate(chosen):
                if traced and line[0] == "e" and self.dice.is_tagged:
                    line = f"{line[:3]}[rank{rank}]: {line[3:]}"
                traced = traced or line[0] == "T"
                self.put(at, rank, line, told, f"{key}{k}")
                at += self.rng.uniform(0.002, 0.06)

    def control(self, group: Sequence[str], key: str, after: float = 0.0, rank: int | None = None) -> None:
        """Lines of the scheduler, about a rank (the victim's)."""
        told = Facts(self, self.dice.rank if rank is None else rank)
        for k, line in enumerate(group):
            self.put(self.now + after + 0.02 * k, None, line, told, f"{key}{k}")

    def who(self, word: str) -> list[int]:
        """The ranks that a word of a script means."""
        d = self.dice
        every = [r for r in range(d.world) if r // d.per not in self.gone]
        if word == "some":
            return sorted(self.rng.sample(every, min(len(every), self.rng.randrange(2, 6))))
        found: dict[str, Any] = {
            "all": lambda r: True,
            "nodes": lambda r: r % d.per == 0,
            "vrank": lambda r: r == d.rank,
            "victim": lambda r: r == d.victim * d.per,
            "vnode": lambda r: r // d.per == d.victim,
            "others": lambda r: r // d.per != d.victim,
            "peers": lambda r: r != d.rank,
            "first": lambda r: r == 0,
            "reporter": lambda r: r == self.limit,
            "second": lambda r: r == d.second * d.per,
            "srank": lambda r: r == d.second * d.per + d.rank % d.per,
            "decoy": lambda r: r == d.decoy * d.per,
            "neighbours": lambda r: r % d.per == 0 and r // d.per != d.victim,
            "rack": lambda r: r // d.per in d.rack,
            "racknodes": lambda r: r // d.per in d.rack and r % d.per == 0,
            "away": lambda r: r // d.per not in d.rack,
        }
        return [r for r in every if found[word](r)]
