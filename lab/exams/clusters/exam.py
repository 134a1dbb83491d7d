"""The jobs of a seed: every course by two voices, each collected in the usual way of its voice."""

from __future__ import annotations

from collections.abc import Iterator

from lab.exams.clusters.devices import DEVICES
from lab.exams.clusters.machines import MACHINES
from lab.exams.clusters.network import NETWORK
from lab.exams.clusters.platform import PLATFORM
from lab.exams.clusters.programs import PROGRAMMES
from lab.exams.clusters.voices import VOICES
from lab.exams.clusters.world import WAYS, Entry, Fresh, collector
from lab.exams.courses.collectors import files
from lab.exams.courses.courses import healthy
from lab.exams.job import Job

COURSES: dict[str, Entry] = {**DEVICES, **MACHINES, **NETWORK, **PROGRAMMES, **PLATFORM}
#: Jobs of each course a seed.
TOLD = 2
#: How the output of a voice's ranks is usually collected. If its lines name no rank, a merged file must.
KEPT = {
    "metaseq": ("srun", "by_node", "by_rank"),
    "olmo": ("plain", "srun", "by_rank"),
    "nanotron": ("plain", "by_node", "journal_short"),
    "llmc": ("mpirun",),
    "nxd": ("by_rank", "streams", "kubectl"),
    "levanter": ("by_node", "kubectl", "docker"),
    "kontor": ("by_node", "pdsh", "journal_json"),
    "pulse": ("loki", "kubectl", "docker"),
    "xingyun": ("by_rank", "by_node", "stern"),
}
#: Jobs of more machines take long to write, so each is written once.
_LARGE = 128


def written(seed: str, name: str, voice: str, entry: Entry, turn: int) -> Job:
    """One job of a course."""
    course, size, _ = entry
    way = KEPT[voice][turn % len(KEPT[voice])]
    w = Fresh(seed, next(v for v in VOICES if v.name == voice), size)
    if w.rng.random() < 0.25:
        w.skew[w.rng.randrange(1, len(w.nodes))] = w.rng.uniform(-240, 240)
    course(w)
    data, truth = files(w, collector(WAYS[way], w.kernel_style), is_described=w.rng.random() < 0.6)
    return Job(f"{name}-{voice}-{way}", voice, data, truth)


def jobs(seed: int) -> Iterator[Job]:
    """Every course by :data:`TOLD` voices, the largest by one."""
    for number, (name, entry) in enumerate(COURSES.items()):
        voices = entry[2]
        for k in range(1 if entry[1] > _LARGE else min(TOLD, len(voices))):
            # Half a list apart: voices on CUDA come first in most lists.
            voice = voices[(seed * 11 + number + k * max(len(voices) // 2, 1)) % len(voices)]
            yield written(f"fresh-{seed}-{name}-{k}", name, voice, entry, seed + number + 2 * k)


def successes(seed: int) -> Iterator[Job]:
    """Three healthy jobs of every voice, each collected in another way, for a history."""
    for voice in VOICES:
        for k in range(3):
            entry: Entry = (healthy, 0, (voice.name,))
            yield written(f"fresh-history-{seed}-{voice.name}-{k}", f"{voice.name}-{k}", voice.name, entry, k)
