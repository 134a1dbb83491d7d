"""The reader's side of parts: writes their arguments, does those that no other worker has taken, reads the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from diagnosis.kinds.flows.capture import partitions


@dataclass(frozen=True, slots=True)
class Parts:
    """A runner (:class:`diagnosis.model.Runner`) on the site's workers; ``worker``: to the worker of this reader."""

    worker: Any
    is_far: bool = False

    def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]:
        folder.mkdir(parents=True, exist_ok=True)
        mark = uuid4().hex
        files = [f"{mark}-{number:05d}.part" for number in range(len(parts))]
        for name, part in zip(files, parts, strict=True):
            (folder / name).write_bytes(part)
        offer = self.worker.ask("offer", function, str(folder), files)
        return self._answers(offer, function, files, folder)

    def _answers(self, offer: int, function: str, files: Sequence[str], folder: Path) -> Iterator[bytes]:
        while (number := self.worker.ask("take", offer)) is not None:
            self.worker.advance(1)  # also while others do the rest: their readers have limits of their own
            if number >= 0:
                part_do(function, files[number], folder)
                self.worker.ask("took")
        for name in files:
            answer = folder / f"{name}.answer"
            yield answer.read_bytes()
            answer.unlink()
            (folder / name).unlink()


def part_do(function: str, name: str, folder: Path) -> None:
    """Do the part in the file ``name`` of the folder; its answer is there completely, or not at all."""
    near = folder / f"{name}.{uuid4().hex}"
    near.write_bytes(partitions.run_part(function, (folder / name).read_bytes(), folder))
    near.replace(folder / f"{name}.answer")
