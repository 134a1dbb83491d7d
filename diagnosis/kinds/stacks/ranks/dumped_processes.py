"""The processes of an upload of stacks, and what each of them is for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from itertools import chain
from typing import Final

import msgspec

from diagnosis.kinds.stacks.read.stack_frames import Dump

TRAINER, AGENT, LOADER, SAVER, HELPER = "trainer", "agent", "loader", "saver", "helper"

_EXTENSION = re.compile(r"\.(?:txt|log|out|json|err|dump|trace|bt|stack|pickle|pkl|gz)$", re.IGNORECASE)
_STEPS: Final = {"train", "train_step"}
_LAUNCHES: Final = {"_invoke_run", "launch_agent"}
_AGENT = re.compile(
    r"torch\.distributed\.(?:run|launch)\b|\btorchrun\b|deepspeed(?:\.launcher|\s)|accelerate\s+launch|\bsrun\b"
    r"|\bmpirun\b|dlrover|launcher"
)
_HELPER = re.compile(
    r"resource_tracker|multiprocessing\.(?:forkserver|resource)|compile_worker|wandb[-_]?(?:service|core)?"
    r"|tensorboard|nvidia-smi|raylet"
)
_RAY = re.compile(r"\bray::")
_NAMED_AGENT = re.compile(r"(?:^|[_\-.])agent(?:[_\-.]|$)")


class Process(msgspec.Struct):
    """One dump with its identity. ``rank`` is global, None if unknown; ``round`` counts from 0."""

    dump: Dump
    path: str
    role: str = TRAINER
    node: str | None = None
    rank: int | None = None
    round: int = 0
    how: str = ""


def with_ranks(processes: Iterable[Process]) -> list[tuple[int, Process]]:
    """The processes whose rank is known, with it."""
    return [(p.rank, p) for p in processes if p.rank is not None]


def role_of(dump: Dump, path: str) -> str:
    """Trainer, launcher's agent, data-loader worker, process that saves checkpoints, or helper."""
    frames = list(chain.from_iterable(thread.frames for thread in dump.threads))
    functions = {frame.name for frame in frames}
    files = {frame.file for frame in frames}
    is_child_without_step = dump.parent is not None and not functions & _STEPS
    if "_worker_loop" in functions or _has_loader_file(files):
        return LOADER
    if is_child_without_step and _has_checkpoint_file(files):
        return SAVER
    if functions & _LAUNCHES or _AGENT.search(dump.command):
        return AGENT
    if _is_helper(dump):
        return HELPER
    if _is_named_agent(dump, path):
        return AGENT
    return HELPER if is_child_without_step and _is_spawned(functions) else TRAINER


def _is_spawned(functions: Set[str]) -> bool:
    return "spawn_main" in functions and "main" not in functions


def _is_named_agent(dump: Dump, path: str) -> bool:
    """A dump without a command may be named by its file."""
    name = path.rsplit("/", 1)[-1].lower()
    return not dump.command and bool(_NAMED_AGENT.search(name))


def _has_checkpoint_file(files: Iterable[str]) -> bool:
    return any("checkpoint" in file for file in files)


def _has_loader_file(files: Iterable[str]) -> bool:
    return any(file.endswith("_utils/worker.py") for file in files)


def _is_helper(dump: Dump) -> bool:
    is_actor = bool(_RAY.search(dump.command))
    return bool(_HELPER.search(dump.command)) or (is_actor and _is_idle_actor(dump))


def _is_idle_actor(dump: Dump) -> bool:
    """Whether an actor of Ray runs no task: Ray's own frames alone."""
    main = dump.main()
    if main is None:
        return True
    frames = [f for f in main.frames if not f.is_native]
    return all(re.search(r"(?:^|/)ray/|default_worker", f.file) for f in frames)


def stem_of(path: str) -> str:
    """The name of a file without its extensions."""
    name = path.rsplit("/", 1)[-1]
    while (shorter := _EXTENSION.sub("", name)) != name:
        name = shorter
    return name
