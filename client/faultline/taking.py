"""``--take stacks``: stack dumps of this machine's processes when the site asks for them, because the job hangs.

The site only names the kind of evidence. What runs here is fixed: ``py-spy dump`` of processes of the same user, if the
caller allowed it with ``--take``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Callable

from faultline.files import Source
from faultline.site import Denied, Problem, Site, Unreachable

KINDS = ("stacks",)
#: seconds between two questions to the site while it asks for nothing, and between the two dumps of one request
_IDLE_S, _EVERY_S = 60.0, 15.0
#: dumps for one request: two of them show what does not move
_TIMES = 2
#: processes and bytes of one dump; seconds for one process and for all, in which no log is sent
_PROCESSES = 64
_BYTES = 4 << 20
_DUMP_S, _ALL_S = 10.0, 60.0
#: the variables in which launchers state the rank; the first one that any process has counts
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


class Taker:
    """Takes what the site asks for, and gives the files to the follower. Of each request everything is taken twice."""

    def __init__(
        self, site: Site, slug: str, *, attempt: int, prefix: str, root: int | None, note: Callable[[str], None]
    ) -> None:
        """``root``: only this process and those that it started; None: all that a launcher gave a rank."""
        self._site, self._slug, self._attempt, self._root, self._note = site, slug, attempt, root, note
        self._prefix = prefix
        self._kept = tempfile.TemporaryDirectory(prefix="faultline-taken-")  # removed when the follower ends
        self._folder = Path(self._kept.name)
        self._next_at = 0.0
        self._taken: dict[str, int] = {}

    def sources(self) -> Iterable[Source]:
        """The files that were taken, to be followed; asks the site when it is time."""
        if (now := time.monotonic()) >= self._next_at:
            wanted = self._wanted()
            self._next_at = now + (_EVERY_S if wanted else _IDLE_S)
            for since in wanted:
                if self._taken.get(since, 0) < _TIMES:
                    self._taken[since] = self._taken.get(since, 0) + 1
                    self._stacks()
        for path in sorted(self._folder.glob("*/*.txt")):
            yield Source(path, self._folder, f"{self._prefix}stacks/{path.parent.name}/{path.name}")

    def _wanted(self) -> list[str]:
        """The moments since which stacks are wanted."""
        try:
            rows = self._site.get(f"/jobs/{self._slug}/wanted/").data["wanted"]
        # an older site, a token that may not read, or no site: the logs are sent all the same
        except (Problem, Denied, Unreachable, KeyError, TypeError):
            return []
        return [
            str(row.get("since"))
            for row in rows
            if isinstance(row, dict) and row.get("kind") == "stacks" and row.get("attempt") == self._attempt
        ]

    def _stacks(self) -> None:
        program = shutil.which("py-spy")
        if program is None:
            self._note("the site asks for stack dumps, but py-spy is not installed here: pip install py-spy")
            return
        folder = self._folder / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        folder.mkdir(exist_ok=True)
        count, why, end = 0, "", time.monotonic() + _ALL_S
        for pid, rank in processes(self._root)[:_PROCESSES]:
            if time.monotonic() > end:
                why = f"they took more than {_ALL_S:.0f} s"
                break
            name = f"rank{rank}.txt" if rank is not None else f"py-spy-{pid}.txt"
            try:
                ran = subprocess.run(  # noqa: S603
                    [program, "dump", "--pid", str(pid)], capture_output=True, timeout=_DUMP_S, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                why = str(error)
                continue
            if ran.returncode:
                why = ran.stderr.decode(errors="replace").strip().partition("\n")[0]
                continue
            near = folder / f"{name}.part"
            near.write_bytes(ran.stdout[:_BYTES])
            near.replace(folder / name)
            count += 1
        rest = f"; of others not: {why}" if why else ""
        self._note(f"the job hangs: stacks of {count} processes were taken{rest}")


def processes(root: int | None) -> list[tuple[int, int | None]]:
    """Python processes of this user with the ranks that their launcher gave them; without ``root`` only those with a
    rank. If some have a rank, processes without one are launchers or helpers and are left out, and so are processes
    that a rank started (workers of data loaders): they inherit its variables.
    """
    parents: dict[int, int] = {}
    found: dict[int, tuple[int, int] | None] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            pid = int(folder.name)
            if folder.stat().st_uid != os.getuid():
                continue
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            program = (folder / "exe").readlink().name
            if program.startswith("python") and pid != os.getpid():
                found[pid] = _rank_of((folder / "environ").read_bytes())
    if root is not None:
        found = {pid: said for pid, said in found.items() if pid == root or root in _above(pid, parents)}
    stated = [said[0] for said in found.values() if said is not None]
    if not stated:
        return [(pid, None) for pid in sorted(found)] if root is not None else []
    ranks = {pid: said[1] for pid, said in found.items() if said is not None and said[0] == min(stated)}
    own = [pid for pid, rank in ranks.items() if all(ranks.get(above) != rank for above in _above(pid, parents))]
    return sorted(((pid, ranks[pid]) for pid in own), key=lambda row: (row[1], row[0]))


def _rank_of(environ: bytes) -> tuple[int, int] | None:
    """Which of the variables states the rank, and the rank."""
    said = dict(row.partition(b"=")[::2] for row in environ.split(b"\0"))
    for place, name in enumerate(_RANK):
        value = said.get(name.encode(), b"")
        if value.isdigit() and len(value) < 9:
            return place, int(value)
    return None


def _above(pid: int, parents: dict[int, int]) -> list[int]:
    """The processes that started this one, nearest first."""
    found: list[int] = []
    while (pid := parents.get(pid, 0)) > 1 and len(found) < 64:
        found.append(pid)
    return found
