"""Which kind of log a text is: of the kernel, of a scheduler, or of anything else."""

from __future__ import annotations

import re
from collections.abc import Callable

from diagnosis.kinds.evidence_kind import HEAD_BYTES
from diagnosis.kinds.logs.text.encodings import begin_of
from diagnosis.model import Kind

_KERNEL = re.compile(
    r"^(?:<\d+>)?(?:\[ *\d+\.\d{6}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\] |\S.{0,60} kernel: )"
)
_SCHEDULER = re.compile(
    r"^(?:slurmstepd|srun|sbatch|slurmctld|slurmd|salloc): |^JobId=\d+|^\s*JobID[ |]|\bslurm(?:ctld|d"
    r"|stepd)\[|^\S* ?(?:Normal|Warning) +[A-Z][A-Za-z]+ +\S+/|^LAST SEEN\s+TYPE|PyTorchJob"
    r"|^NodeName=|"
    r"pod/\S+ |^bsub|^qsub"
)
#: Each line that matches contains one of these.
_KERNEL_WORDS = ("\n<", "\n[", " kernel: ")
_SCHEDULER_WORDS = (
    *("slurm", "srun: ", "sbatch: ", "salloc: ", "JobI", "JobID", "Normal ", "Warning ", "LAST SEEN", "PyTorchJob"),
    *("NodeName=", "pod/", "\nbsub", "\nqsub"),
)
_SACCT = re.compile(r"^\s*(?:JobID|JobIDRaw|Account|User|Partition|State|ExitCode|NodeList)[|,]")


def recognise(head: bytes, path: str) -> Kind:
    """The kind of log that begins with ``head``. Takes every file. O(len(head))."""
    text = begin_of(head[:HEAD_BYTES])
    lines = [line for line in text.splitlines()[:400] if line.strip()]
    if not lines:
        return Kind.LOG
    if _SACCT.match(lines[0]):
        return Kind.SCHEDULER
    if _is_half_matched(lines, _KERNEL.match, _KERNEL_WORDS):
        return Kind.KERNEL
    if _is_half_matched(lines, _SCHEDULER.search, _SCHEDULER_WORDS):
        return Kind.SCHEDULER
    return Kind.LOG


def _is_half_matched(lines: list[str], matched: Callable[[str], object], words: tuple[str, ...]) -> bool:
    """Whether at least half of the lines match; stops at the line that decides. Each match needs one of ``words``:
    counting them is enough for nearly all files.
    """
    text = "\n" + "\n".join(lines)
    if 2 * sum(text.count(word) for word in words) < len(lines):
        return False
    missed = 0
    for line in lines:
        missed += matched(line) is None
        if 2 * missed > len(lines):
            return False
    return True
