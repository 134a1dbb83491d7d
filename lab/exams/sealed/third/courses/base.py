"""Which voices fit which courses, and what many courses have in common."""

from __future__ import annotations

from collections.abc import Iterable

from lab.exams.sealed.common import course
from lab.exams.sealed.common.case import CONTEXT, ROOT, Case
from lab.exams.sealed.third import peers
from lab.exams.sealed.third.noise import KERNEL, SERVICES

NVIDIA = ("swift_dlc", "kagami", "hanbit", "werk", "torchft_nomad")
TORCH = (*NVIDIA, "factory_mlu", "flux_rocm", "pbs_xpu")
LINUX = (*TORCH, "moteur")
ALL = (*LINUX, "paxml")
PODS = ("swift_dlc", "hanbit", "torchft_nomad", "factory_mlu")
RDMA = ("kagami", "hanbit", "werk", "swift_dlc", "moteur")


class Found(course.Found):
    """The courses of a module."""

    def __init__(self, *, is_failing: bool = True) -> None:
        super().__init__(ALL, is_failing=is_failing)


def quiet(c: Case, share: float = 0.45) -> None:
    """What kernels and services of some machines say of nothing, over the time so far."""
    if share < 0.6 and c.variant % 6 == 0:
        return  # nobody collected them
    vendor = "nvidia" if c.voice.name in (*NVIDIA, "moteur") else c.voice.vendor
    for k in range(len(c.nodes)):
        if k in c.gone or c.rng.random() > share:
            continue
        for _ in range(c.rng.randint(1, 4)):
            text = c.rng.choice((*KERNEL["any"], *KERNEL[vendor] * 2))
            told = {"a": c.rng.randrange(2, 9), "b": c.rng.randrange(1000, 9999)}
            c.kern(k, text.format(**told), dt=-c.rng.random() * c.now)
        if c.rng.random() < 0.5:
            who, text = c.rng.choice(SERVICES)
            c.unit(k, who, text.format(a=c.rng.randrange(2, 90), b=c.rng.randrange(100, 999)), dt=-c.now / 3)


def scare(c: Case) -> None:
    """Something that looks bad and changes nothing."""
    r = c.rng.choice(c.firsts())
    match c.rng.randrange(5):
        case 0:
            c.trace(
                r, ("ConnectionError: HTTPConnectionPool(host='aim.local', port=53800): refused",), "", "", "config"
            )
            c.log(r, "tracker not reachable (traceback above), run continues without it", "W", dt=0.1)
        case 1:
            c.log(r, "checksum of a cached block was wrong, block fetched again: ok", "W")
        case 2:
            c.kern(c.w, "perl[4410]: segfault at 0 ip 0000561f sp 00007ffc error 4 in libperl.so.5.36")
        case 3:
            c.unit(c.w, "telegraf[3010]", "E! [outputs.influxdb_v2] When writing to [http://tsdb:8086]: timeout")
            c.unit(c.w, "telegraf[3010]", "I! [outputs.influxdb_v2] buffer flushed, connection restored", dt=20)
        case _:
            for k in range(3):
                c.log(r, f"read of block {c.n + k} took {4 + k}.2 s, hedged request was faster", "W", dt=k * 1.5)
    c.wait(5, 20)


def run(c: Case, low: int = 12, high: int = 60, save: int = 0) -> None:
    """Everything until some iterations are done."""
    c.ready()
    c.train(low, high, save=save)
    if c.rng.random() < 0.6:
        scare(c)
    c.train(2 * low, 2 * high, save=save)
    quiet(c)


def start_up(c: Case) -> None:
    """Everything before the first iteration."""
    c.ready()
    quiet(c, 0.3)


def kernel(c: Case, texts: Iterable[str], node: int | None = None, gap: float = 0.4) -> None:
    """Kernel lines of a machine: roots, those that begin with a space context."""
    for k, text in enumerate(texts):
        is_root = not text.startswith(" ")
        c.kern(c.v if node is None else node, text.strip(), ROOT if is_root else CONTEXT, f"k{k}" * is_root, gap * k)


def alike(c: Case, what: tuple[str, ...], where: str, code: int = 1) -> None:
    """The same traceback on many ranks; the scheduler names one."""
    ranks = c.some(c.alive(), min(48, max(4, c.world // 4)), min(96, max(8, c.world // 2)))
    for r in ranks:
        c.trace(r, what, ROOT, "raised", where, c.rng.uniform(0, 2))
    end(c, ranks[0], code)


def end(c: Case, rank: int, code: int = 1) -> None:
    """A process ended and the job with it."""
    c.wait(2, 6)
    c.died(rank, code)
    c.wait(1, 5)
    peers.ended(c, c.firsts())
    c.closed("fail")


def bus(c: Case) -> str:
    """The bus address of the victim's device."""
    return f"0000:{(0x05, 0x26, 0x4D, 0x5E, 0x87, 0xA8, 0xCB, 0xE3)[c.vr % 8]:02x}:00"


def device_error(c: Case, text: str, dt: float = 0.6) -> None:
    """The victim's program sees an error of its device."""
    c.trace(c.vr, (text,), "secondary", "device", "backward", dt)
