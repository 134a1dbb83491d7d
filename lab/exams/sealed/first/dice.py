"""What is drawn anew for every job: names, sizes, times, clocks and the dialect of its family."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

_NAMES = (
    "x{r}c{c}s{k}b0n0",
    "hpc-gpu{k:03d}",
    "vmss-h{r}-{k:06d}",
    "tdc{r}-{k:03d}.fabric",
    "blade{r}{c}-{k:02d}",
    "oci-bm-{r}{c}{k}",
    "jzr{r}i{c}n{k}",
    "lrdn{r}{k:03d}",
    "c{r}{c:02d}-{k:03d}",
)
_PODS = ("pt-{job}-worker-{k}", "{run}-{job}-node-{k}", "{run}-replica-0-{k}", "lm{job}-task-{k}")
#: Schedulers that number their jobs.
_NUMBERED = {"slurm", "pbs", "condor", "determined", "sky"}
_RUNS = ("aurelia", "bluefin-7b", "corvus", "dunlin-34b", "ember2", "fjord-moe", "garnet-13b", "heron", "ibis-70b")
_USERS = ("mkowal", "tanakay", "l.fournier", "svc-train", "rpatel7", "u104822", "ana.m", "ovchar")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class Stamp(dict[str, Any]):
    """The clock of a machine in every spelling that texts ask for, each made when the first text asks for it;
    ``since``: seconds since the job's start."""

    def __init__(self, at: float, zone: float, since: float) -> None:
        super().__init__()
        self.at, self.since = at, since
        self.local, self.utc = datetime.fromtimestamp(at + zone * 3600, UTC), datetime.fromtimestamp(at, UTC)
        sign, minutes = ("-" if zone < 0 else "+"), int(abs(zone) * 60)
        self.offset = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"

    def __missing__(self, name: str) -> Any:
        self[name] = _SPELLINGS[name](self)
        return self[name]


_SPELLINGS: dict[str, Callable[[Stamp], Any]] = {
    "Y": lambda s: s.local.year,
    "m": lambda s: f"{s.local.month:02d}",
    "D": lambda s: f"{s.local.day:02d}",
    "H": lambda s: f"{s.local.hour:02d}",
    "M": lambda s: f"{s.local.minute:02d}",
    "S": lambda s: f"{s.local.second:02d}",
    "ms": lambda s: f"{s.local.microsecond // 1000:03d}",
    "us": lambda s: f"{s.local.microsecond:06d}",
    "mon": lambda s: _MONTHS[s.local.month - 1],
    "yy": lambda s: f"{s.local.year % 100:02d}",
    "day": lambda s: f"{s.local.day:2d}",
    "wday": lambda s: f"{s.local:%a}",
    "hms": lambda s: f"{s.local:%H:%M:%S}",
    "mmdd": lambda s: f"{s.local:%m%d}",
    "iso": lambda s: f"{s.local:%Y-%m-%dT%H:%M:%S}",
    "ymd": lambda s: f"{s.local:%Y-%m-%d}",
    "zulu": lambda s: f"{s.utc:%Y-%m-%dT%H:%M:%S}",
    "uus": lambda s: f"{s.utc.microsecond:06d}",
    "offset": lambda s: s.offset,
    "zone": lambda s: s.offset.replace(":", ""),
    "epoch": lambda s: int(s.at),
    "ns": lambda s: f"{s.at * 1e9:.0f}",
    "up": lambda s: str(timedelta(days=int(s.since // 86400), seconds=int(s.since % 86400))),
    "upms": lambda s: f"{int(s.since * 1000) % 1000:03d}",
    "since": lambda s: f"{s.since:.3f}",
}
#: The fields that a :class:`Stamp` knows.
CLOCK = frozenset(_SPELLINGS)


@lru_cache(maxsize=64)
def stamp(at: float, zone: float, since: float) -> Stamp:
    """One stamp serves all texts of a moment."""
    return Stamp(at, zone, since)


@dataclass
class Dice:
    """``family`` draws what the jobs of a voice share under one seed; ``seed`` what is this job's own."""

    family: str
    seed: str
    voice: dict[str, Any]
    size: int
    course: dict[str, Any]
    skew: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kin, rng = random.Random(self.family), random.Random(self.seed)
        self.rng, voice = rng, self.voice
        self.dialect = kin.randrange(60)
        self.vendor: str = voice["vendors"][self.dialect % len(voice["vendors"])]
        self.has_carets, self.is_tagged = kin.random() < 0.5, voice["stack"] == "torch" and kin.random() < 0.5
        self.zone = kin.choice((0, 0, 1, 2, 9, -5, -8, 5.5))
        self.run, self.user = kin.choice(_RUNS), kin.choice(_USERS)
        self.every = kin.choice(voice["every"])
        self.scheduler: str = kin.choice(voice["schedulers"])
        count = self.size
        self.per = min(voice["per"], 8 if count <= 32 else 4 if count <= 64 else 2 if count <= 128 else 1)
        self.world, self.total = self.per * count, kin.choice((20000, 61035, 143000, 250000))
        self.job = str(rng.randrange(10**5, 10**7)) if self.scheduler in _NUMBERED else f"{rng.getrandbits(32):08x}"
        self._place(kin, rng, count)
        self.kernel_style = kin.randrange(4)
        self._uptime = [rng.uniform(4e4, 6e6) for _ in range(count)]
        self._hex = [f"{rng.getrandbits(32):08x}" for _ in range(count)]
        self.t0 = datetime(2026, 2, 1, tzinfo=UTC).timestamp() + rng.randrange(18 * 10**6) + rng.random()
        self.pids = [rng.randrange(1500, 400000) for _ in range(self.world)]
        self.first_n = rng.randrange(1, 60) * 250 if self.course.get("is_resumed") or rng.random() < 0.45 else 0
        self.step_s = rng.uniform(*voice.get("step_s", (2.0, 11.0)))
        self.lr, self.batch = rng.choice((1e-4, 1.5e-4, 3e-4, 6e-4)), rng.choice((524288, 1048576, 2097152, 4194304))
        self.tflops, self.mem_gb, self.port = rng.uniform(120, 480), rng.uniform(31, 70), rng.randrange(20000, 49000)
        self.patience = rng.choice(voice.get("patience", (600, 900, 1800)))
        self.length = 1 if "speakers" in voice else rng.choice((1, 1, 2, 3, 5)) * (2 if self.every > 4 else 1)
        root = rng.choice(("/lustre/prj", "/gpfs/work", "/scratch", "/mnt/weka", "/data/shared", "/p/home"))
        self.words = {
            **{"run": self.run, "user": self.user, "ckpt": f"{root}/{self.user}/{self.run}/ckpt", "root": root},
            **{"corpus": f"{root}/corpora/{kin.choice(('web-v4', 'mix2', 'code_dedup', 'multiling'))}"},
            **{"bucket": f"{self.run}-artifacts", "mount": root, "ver": kin.randrange(1, 9)},
        }
        if self.course.get("is_clock_off"):
            self.skew[self.victim] = rng.choice((-1, 1)) * rng.uniform(30, 300)
        elif rng.random() < 0.2:
            self.skew[self.victim if rng.random() < 0.5 else self.decoy] = rng.choice((-1, 1)) * rng.uniform(20, 400)

    def _place(self, kin: random.Random, rng: random.Random, count: int) -> None:
        """Names, addresses and leaves; the victim and who else takes part."""
        pods = self.scheduler in ("volcano", "determined")
        pattern = kin.choice(_PODS if pods else self.voice.get("names", _NAMES))
        numbers = list(range(count)) if pods else sorted(rng.sample(range(1, max(99, 2 * count)), count))
        row, cage = rng.randrange(1, 9), rng.randrange(1, 8)
        self.nodes = [pattern.format(r=row, c=cage, k=k, job=self.job, run=self.run) for k in numbers]
        net = rng.choice((f"10.{rng.randrange(200)}", "192.168", "172.31"))
        self.ips = [f"{net}.{row * 8 + k // 200}.{k % 200 + 11}" for k in numbers]
        below = max(2, min(16, count // 4))
        switch = kin.choice(("tor", "isl", "edge-sw"))
        self.leaves = [f"{switch}{row}{k // below:02d}" for k in range(count)]
        self.victim = rng.randrange(1 if self.course.get("is_first_spared") else 0, count)
        self.rank = self.victim * self.per + rng.randrange(self.per)
        rest = [k for k in range(count) if k != self.victim]
        self.second = rng.choice(rest)
        self.decoy = rng.choice([k for k in rest if k != self.second] or rest)
        self.rack = [k for k in range(count) if self.leaves[k] == self.leaves[self.victim]]
        self._buses = rng.sample(range(3, 250), 8)

    def pci(self, local: int) -> str:
        """The bus address of an accelerator."""
        return f"0000:{self._buses[local % 8]:02x}:00.0"

    def uptime(self, node: int | None) -> float:
        """For how long a machine had been running when the job started, in seconds."""
        return self._uptime[node or 0]

    def hex_of(self, node: int | None) -> str:
        """The identifier of a machine's container."""
        return self._hex[node or 0]

    @staticmethod
    def uuid(rng: random.Random) -> str:
        """An identifier of a device or volume."""
        text = f"{rng.getrandbits(128):032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
