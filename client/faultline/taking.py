"""``--take stacks``: stack dumps of this machine's processes when the site asks for them, because the job hangs.

The site only names the kind of evidence. What runs here is fixed: ``py-spy dump`` of processes of the same user, if the
caller allowed it with ``--take``.
"""

from __future__ import annotations

import os
import random
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
#: seconds between two questions to a site that does not say when to ask again, and the limits of what it may say
_IDLE_S, _SOONEST_S, _LATEST_S = 60.0, 5.0, 300.0
#: seconds between the two dumps of one request
_EVERY_S = 15.0
#: dumps for one request: two of them show what does not move
_DUMPS = 2
#: processes and bytes of one dump; seconds for one process and for all, in which no log is sent
_MAX_PROCESSES = 64
_MAX_BYTES = 4 << 20
_MAX_DUMP_S, _MAX_TOTAL_S = 10.0, 60.0
#: the variables in which launchers state the rank; the first one that any process has counts
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


class Taker:
    """Takes what the site asks for, and gives the files to the follower. Of each request everything is taken twice."""

    def __init__(
        self, site: Site, slug: str, *, attempt: int, prefix: str, root: int | None, note: Callable[[str], None]
    ) -> None:
        """``root``: only this process and those that it started; None: all that a launcher gave a rank."""
        self._site, self._slug, self._attempt, self._root, self._note = site, slug, attempt, root, note
        self._prefix = prefix
        self._temporary_folder = tempfile.TemporaryDirectory(
            prefix="faultline-taken-"
        )  # removed when the follower ends
        self._folder = Path(self._temporary_folder.name)
        self._next_at = 0.0
        self._taken_counts: dict[str, int] = {}

    def sources(self) -> Iterable[Source]:
        """The files that were taken, to be followed; asks the site when it is time."""
        if (now := time.monotonic()) >= self._next_at:
            requests, again_s = self._requests()
            self._next_at = now + (_EVERY_S if requests else again_s)
            for since in requests:
                if self._taken_counts.get(since, 0) < _DUMPS:
                    self._taken_counts[since] = self._taken_counts.get(since, 0) + 1
                    self._stacks()
        for path in sorted(self._folder.glob("*/*.txt")):
            yield Source(path, self._folder, f"{self._prefix}stacks/{path.parent.name}/{path.name}")

    def _requests(self) -> tuple[list[str], float]:
        """The moments since which stacks are wanted, and the seconds until the next question."""
        try:
            answer = self._site.get(f"/jobs/{self._slug}/wanted/").data
            rows = answer["wanted"]
            again_s = float(answer.get("ask_again_s", _IDLE_S))
        # an older site, a token that may not read, or no site: the logs are sent all the same
        except (Problem, Denied, Unreachable, KeyError, TypeError, ValueError):
            return [], _IDLE_S
        moments = [
            str(row.get("since"))
            for row in rows
            if isinstance(row, dict) and row.get("kind") == "stacks" and row.get("attempt") == self._attempt
        ]
        again_s = min(max(_SOONEST_S, again_s), _LATEST_S)  # in this order NaN is the soonest, too
        return moments, again_s * random.uniform(0.8, 1.2)  # noqa: S311  # not all nodes at the same time

    def _stacks(self) -> None:
        program = shutil.which("py-spy")
        if program is None:
            self._note("the site asks for stack dumps, but py-spy is not installed here: pip install py-spy")
            return
        folder = self._folder / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        folder.mkdir(exist_ok=True)
        count, why, end = 0, "", time.monotonic() + _MAX_TOTAL_S
        for pid, rank in processes(self._root)[:_MAX_PROCESSES]:
            if time.monotonic() > end:
                why = f"they took more than {_MAX_TOTAL_S:.0f} s"
                break
            name = f"rank{rank}.txt" if rank is not None else f"py-spy-{pid}.txt"
            try:
                ran = subprocess.run(  # noqa: S603
                    [program, "dump", "--pid", str(pid)], capture_output=True, timeout=_MAX_DUMP_S, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                why = str(error)
                continue
            if ran.returncode:
                why = ran.stderr.decode(errors="replace").strip().partition("\n")[0]
                continue
            part = folder / f"{name}.part"
            part.write_bytes(ran.stdout[:_MAX_BYTES])
            part.replace(folder / name)
            count += 1
        failures = f"; of others not: {why}" if why else ""
        self._note(f"the job hangs: stacks of {count} processes were taken{failures}")


def processes(root: int | None) -> list[tuple[int, int | None]]:
    """Python processes of this user with the ranks that their launcher gave them; without ``root`` only those with a
    rank. If some have a rank, processes without one are launchers or helpers and are left out, and so are processes
    that a rank started (workers of data loaders): they inherit its variables.
    """
    parents: dict[int, int] = {}
    ranks_by_process: dict[int, tuple[int, int] | None] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            pid = int(folder.name)
            if folder.stat().st_uid != os.getuid():
                continue
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            program = (folder / "exe").readlink().name
            if program.startswith("python") and pid != os.getpid():
                ranks_by_process[pid] = _rank_of((folder / "environ").read_bytes())
    if root is not None:
        ranks_by_process = {
            pid: rank_row
            for pid, rank_row in ranks_by_process.items()
            if pid == root or root in _ancestors(pid, parents)
        }
    variables = [rank_row[0] for rank_row in ranks_by_process.values() if rank_row is not None]
    if not variables:
        return [(pid, None) for pid in sorted(ranks_by_process)] if root is not None else []
    ranks = {
        pid: rank_row[1]
        for pid, rank_row in ranks_by_process.items()
        if rank_row is not None and rank_row[0] == min(variables)
    }
    own = [pid for pid, rank in ranks.items() if all(ranks.get(above) != rank for above in _ancestors(pid, parents))]
    return sorted(((pid, ranks[pid]) for pid in own), key=lambda row: (row[1], row[0]))


def _rank_of(environ: bytes) -> tuple[int, int] | None:
    """Which of the variables states the rank, and the rank."""
    variables = dict(row.partition(b"=")[::2] for row in environ.split(b"\0"))
    for index, name in enumerate(_RANK_VARIABLES):
        value = variables.get(name.encode(), b"")
        if value.isdigit() and len(value) < 9:
            return index, int(value)
    return None


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    """The processes that started this one, nearest first."""
    ancestors: list[int] = []
    while (pid := parents.get(pid, 0)) > 1 and len(ancestors) < 64:
        ancestors.append(pid)
    return ancestors
