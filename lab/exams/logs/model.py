"""The parts of a made-up job as data: frameworks, launchers, communication libraries and causes."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Library:
    """Messages of one vendor's ranks when a peer disappears or does not answer; ``hello``: at start."""

    hello: tuple[str, ...]
    reset: tuple[str, ...]
    timeout: tuple[str, ...]
    timeout_s: float = 600.0


@dataclass(frozen=True)
class Launcher:
    """Lines of the program that starts the job; ``(delay, text)``, ``{node}`` repeats a line for every node."""

    name: str
    start: tuple[str, ...]
    failed: tuple[str, ...]
    killed: tuple[str, ...]
    done: tuple[str, ...]
    teardown: tuple[str, ...] = ()
    scheduler: str = ""


@dataclass(frozen=True)
class Framework:
    """The log format of one training framework. ``path`` and ``head`` are filled in for each rank, ``stamp`` is an
    strftime format with ``%L`` for milliseconds; ``frames`` names functions of a traceback by stage."""

    name: str
    vendor: str
    launcher: str
    path: str
    head: str
    stamp: str
    startup: tuple[tuple[str, str], ...]
    progress: str
    save: tuple[str, str]
    finish: str
    noise: tuple[str, ...]
    frames: dict[str, tuple[str, ...]]
    step_s: float = 8.0
    interval: int = 1
    reporter: int = 0
    is_held_out: bool = False


@dataclass(frozen=True)
class Variant:
    """One wording of a cause. ``vendors``: the accelerators it belongs to, ``any`` for all.
    Lines are ``WHERE WHO ROLE [*TIMES] [+DELAY] [@STAGE] | text``."""

    vendors: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Cause:
    """A cause of failure. ``scope``: ``node`` (one machine is at fault), ``fabric`` (several are affected, none is at
    fault), ``all`` or ``one`` (a program error on all ranks or one), ``none`` (a decision from outside). ``peers``: how
    the others notice it, ``reset``, ``timeout`` or ``none``. ``is_cut``: the machine writes nothing after the fault.
    ``absent``: it never wrote anything.
    """

    subcategory: str
    category: str
    scope: str
    variants: tuple[Variant, ...]
    symptom: str = "crash"
    stage: str = "training"
    peers: str = "reset"
    also_categories: tuple[str, ...] = ()
    also_subcategories: tuple[str, ...] = ()
    also_symptoms: tuple[str, ...] = ()
    also_stages: tuple[str, ...] = ()
    is_cut: bool = False
    is_absent: bool = False
    ending: str = "failed"
    is_held_out: bool = field(default=False)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def _fixed(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def _framework(row: dict[str, Any]) -> Framework:
    startup = tuple((stage, text) for stage, text in row["startup"])
    frames = {stage: tuple(names) for stage, names in row["frames"].items()}
    return Framework(**{**_fixed(row), "startup": startup, "save": (row["save"][0], row["save"][1]), "frames": frames})


def _cause(row: dict[str, Any]) -> Cause:
    variants = tuple(Variant(v["vendors"], tuple(v["lines"])) for v in row["variants"])
    return Cause(**{**_fixed(row), "variants": variants})


_SPEECH = _read("frameworks.toml")
LIBRARIES = {name: Library(**_fixed(row)) for name, row in _SPEECH["library"].items()}
LAUNCHERS = {name: Launcher(name=name, **_fixed(row)) for name, row in _SPEECH["launcher"].items()}
FRAMEWORKS = tuple(_framework(row) for row in _SPEECH["framework"])
CAUSES = tuple(_cause(row) for row in _read("causes.toml")["cause"])
