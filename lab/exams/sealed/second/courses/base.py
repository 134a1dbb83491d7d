"""Which voices fit which courses, and what many courses have in common."""

from __future__ import annotations

from lab.exams.sealed.common import course
from lab.exams.sealed.common.case import CONTEXT, Case
from lab.exams.sealed.second import peers
from lab.exams.sealed.second.noise import KERNEL

TORCH = (
    *("lingua", "openrlhf", "smp_hyperpod", "clipper", "trl_lsf"),
    *("primus", "xtuner_npu", "bmtrain", "yunke", "tessera"),
)
CUDA = ("lingua", "openrlhf", "smp_hyperpod", "clipper", "trl_lsf", "bmtrain", "yunke", "tessera")
VERBS = ("lingua", "clipper", "yunke", "tessera", "trl_lsf")
SLURM = ("lingua", "smp_hyperpod", "primus", "tessera")
PODS = ("clipper", "yunke")
ALL = (*TORCH, "axlearn", "fleetx")


class Found(course.Found):
    """The courses of a module."""

    def __init__(self, *, is_failing: bool = True) -> None:
        super().__init__(ALL, is_failing=is_failing)


def quiet(c: Case, share: float = 0.4) -> None:
    """What kernels and services of some machines say of nothing, spread over the time so far."""
    if share < 0.9 and c.variant % 5 == 0:
        return  # nobody kept them
    for k in range(len(c.nodes)):
        if k in c.gone or c.rng.random() > share:
            continue
        words = (*KERNEL["any"], *KERNEL[c.voice.vendor] * 3)
        for _ in range(c.rng.randint(1, 5)):
            back = -c.rng.random() * c.now
            text = c.rng.choice(words).format(a=c.rng.randrange(2, 9), b=c.rng.randrange(1000, 9999))
            for part_no, part in enumerate(text.split("\n")):
                c.kern(k, part, dt=back + part_no * 3)
        if c.rng.random() < 0.4:
            who, word = c.rng.choice(_UNITS)
            pid = c.rng.randrange(900, 9000)
            c.unit(k, f"{who}[{pid}]", word.format(a=c.rng.randrange(2, 250)), dt=back / 2)


_UNITS = (
    ("chronyd", "Selected source 10.0.0.{a}"),
    ("sshd", "Received disconnect from 10.0.0.{a} port 52210:11: disconnected by user"),
    ("systemd", "logrotate.service: Failed with result 'exit-code'."),
    ("node_exporter", 'level=error msg="collector failed" name=infiniband duration_seconds=0.00{a} err="no such file"'),
    ("dcgm-exporter", "level=warning msg=\"Skipping line 21 ('DCGM_FI_DEV_FB_RESERVED'): metric not enabled\""),
    (
        "kubelet",
        'W prober.go:107] "Probe failed" probeType="Liveness" pod="monitoring/agent-{a}" probeResult="failure"',
    ),
    ("snmpd", "error on subcontainer 'ia_addr' insert (-1)"),
    ("smartd", "Device: /dev/nvme0, number of Error Log entries increased from {a} to 251"),
)


def start(c: Case, low: int = 12, high: int = 90, save: int = 0) -> None:
    """Everything until some iterations are done; numbers of the course are for a short job, and taken three times."""
    c.ready()
    c.train(low, high, save=3 * save)
    if c.rng.random() < 0.5:
        loud(c)
    c.train(2 * low, 2 * high, save=3 * save)
    quiet(c)


def bdf(c: Case, rank: int) -> str:
    """The bus address of a rank's device."""
    return f"0000:{(0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)[rank % 8]:02x}:00"


def ranks_of(c: Case, node: int) -> list[int]:
    """The ranks of a machine."""
    return list(range(node * c.per, node * c.per + c.per))


def start_up(c: Case) -> None:
    """Everything before the first iteration."""
    c.voice.launched(c)
    c.voice.boot(c)
    quiet(c, 0.3)


def stop(c: Case, rank: int | None = None, code: int = 1) -> None:
    """All fail alike: the launcher names one of them."""
    c.wait(1, 4)
    c.died(c.rng.choice(c.alive()) if rank is None else rank, code)
    c.wait(1, 5)
    peers.ended(c, c.firsts())
    c.closed("fail")


def loud(c: Case) -> None:
    """Something that looks bad and is over at once: it was caught, it was corrected, or a retry helped."""
    r = c.rng.choice(c.firsts())
    match c.rng.randrange(6):
        case 0:
            c.trace(
                r,
                (
                    "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='metrics.int', "
                    "port=443): Read timed out.",
                ),
                "",
                "",
                "config",
            )
            c.log(r, "metrics were not pushed (exception above), going on without", "W")
        case 1:
            for k in range(3):
                c.log(r, f"GET part-{c.n:06d} failed: 503 Service Unavailable, attempt {k + 1}/8", "W", dt=2.0 * k)
            c.log(r, f"GET part-{c.n:06d} ok after 4 attempts", dt=7)
        case 2:
            c.kern(c.w, "EDAC MC0: 1 CE memory scrubbing error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0)")
            c.log(r, f"step {c.n + 1} is slow, a garbage collection of 2.{c.dialect}s fell into it", "W")
        case 3:
            c.unit(c.w, "node-agent[902]", "ERROR: scrape of the previous interval failed: context deadline exceeded")
            c.unit(c.w, "node-agent[902]", "scrape ok", dt=15)
        case 4:
            c.log(
                r,
                "optional component 'apex' failed to import: No module named 'apex'. Using the fused version of torch",
                "W",
            )
        case _:
            c.log(
                r,
                f"data worker {c.dialect % 8} was replaced after a malformed record (skipped 1 of {c.n * 512 + 9})",
                "W",
            )
    c.wait(8, 15)


def stop_or_copy(c: Case) -> None:
    """A slow job is stopped by somebody, or its files are copied while it runs."""
    if c.rng.random() < 0.5:
        c.closed("cancel", CONTEXT)
