"""What texts may name: the value of a field is drawn when a text first asks for it, and kept for the whole group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.exams.sealed.first.world import World


class Facts(dict[str, Any]):
    """The fields of one writer's group of lines."""

    def __init__(self, world: World, rank: int) -> None:
        super().__init__()
        self.w, self.d, self.rng, self.rank = world, world.dice, world.rng, rank
        self.node = rank // self.d.per
        self.peer = (rank + self.d.per * self.rng.randrange(1, max(2, len(self.d.nodes)))) % self.d.world

    def __missing__(self, name: str) -> Any:
        if name in self.d.words:
            value = self.d.words[name]
        elif name.strip("d") == "":
            value = self.rng.randrange(10 ** (len(name) - 1), 10 ** len(name))
        else:
            value = _FACTS[name](self)
        self[name] = value
        return value

    def loss(self) -> float:
        """A loss that falls with the iterations and trembles."""
        done = (self.w.n - self.d.first_n) / 9 + self.d.first_n / 40
        return float(max(1.2, 9.5 * (1 + done) ** -0.32) + self.rng.gauss(0, 0.02))


def _hexes(digits: int) -> Callable[[Facts], str]:
    return lambda f: f"{f.rng.getrandbits(4 * digits):0{digits}x}"


_FACTS: dict[str, Callable[[Facts], Any]] = {
    # who
    "rank": lambda f: f.rank,
    "local": lambda f: f.rank % f.d.per,
    "node": lambda f: f.d.nodes[f.node],
    "ip": lambda f: f.d.ips[f.node],
    "pid": lambda f: f.d.pids[f.rank],
    "peer": lambda f: f.peer,
    "peernode": lambda f: f.d.nodes[f.peer // f.d.per],
    "peerip": lambda f: f.d.ips[f.peer // f.d.per],
    "first": lambda f: f.d.nodes[0],
    "firstip": lambda f: f.d.ips[0],
    "victim": lambda f: f.d.nodes[f.d.victim],
    "nodeno": lambda f: f.d.victim,
    "vrank": lambda f: f.d.rank,
    "vlocal": lambda f: f.d.rank % f.d.per,
    "vip": lambda f: f.d.ips[f.d.victim],
    "vpid": lambda f: f.d.pids[f.d.rank],
    "second": lambda f: f.d.nodes[f.d.second],
    "decoy": lambda f: f.d.nodes[f.d.decoy],
    "leaf": lambda f: f.d.leaves[f.d.victim],
    "prog": lambda f: f.w.voice.get("program", "python"),
    # the job
    "world": lambda f: f.d.world,
    "nnodes": lambda f: len(f.d.nodes),
    "per": lambda f: f.d.per,
    "job": lambda f: f.d.job,
    "port": lambda f: f.d.port,
    "batch": lambda f: f.d.batch,
    "total": lambda f: f.d.total,
    "patience": lambda f: f.d.patience,
    "attempt": lambda f: f.w.attempt,
    # devices and identifiers
    "pci": lambda f: f.d.pci(f.rank % f.d.per),
    "bus": lambda f: f.d.pci(f.rank % f.d.per)[5:7],
    "hca": lambda f: f"mlx5_{f.node % 8}",
    "hex4": _hexes(4),
    "hex8": _hexes(8),
    "hex12": _hexes(12),
    "HEX8": lambda f: _hexes(8)(f).upper(),
    "uuid": lambda f: f.d.uuid(f.rng),
    # progress
    "n": lambda f: f.w.n,
    "n0": lambda f: f.w.n - 1,
    "n1": lambda f: f.w.n + 1,
    "saved": lambda f: f.w.saved,
    "seq": lambda f: f.w.n * 61 + 17,
    "consumed": lambda f: f.w.n * 1024,
    "pct0": lambda f: 100 * f.w.n // f.d.total,
    "loss": lambda f: f"{f.loss():.4f}",
    "loss2": lambda f: f"{f.loss():.2f}",
    "loss_c": lambda f: f"{f.loss():.3f}".replace(".", ","),
    "perplexity": lambda f: f"{2.718 ** f.loss():.2f}",
    "secs": lambda f: f"{f.w.took:.2f}",
    "secs_c": lambda f: f"{f.w.took:.2f}".replace(".", ","),
    "sits": lambda f: f"{f.w.took:.2f}s/it",
    "msecs": lambda f: f"{f.w.took * 1e3:.1f}",
    "gnorm": lambda f: f"{abs(f.rng.gauss(0.9, 0.2)):.3f}",
    "lr": lambda f: f"{f.d.lr * (1 - f.w.n / f.d.total / 2):.3e}",
    "tps": lambda f: f"{f.d.batch / f.w.took:.0f}",
    "tflops": lambda f: f"{f.d.tflops * f.d.step_s / f.w.took:.1f}",
    "eta": lambda f: f"{(f.d.total - f.w.n) * f.w.took / 3600:.1f}",
    "mem": lambda f: f"{f.d.mem_gb + f.rng.random():.2f}",
    "rss": lambda f: f"{190 + (f.w.n - f.d.first_n) * 0.9 + f.rng.random():.1f}",
    "data_ms": lambda f: f"{f.rng.uniform(2, 19):.1f}",
}
