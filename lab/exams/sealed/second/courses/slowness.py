"""Courses in which a job works, but too slowly."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, Case
from lab.exams.sealed.second.courses.base import ALL, TORCH, VERBS, Found, quiet, start, stop_or_copy

FOUND = Found()


@FOUND.course(("lingua", "tessera", "clipper", "yunke", "primus", "xtuner_npu"))
def batches_come_late(c: Case) -> None:
    """The time to the next batch grows on all machines; computing takes as long as before."""
    start(c, 30, 60)
    c.mark()
    for k in range(c.rng.randint(5, 9)):
        c.train(4, 8, 1.6 + 0.2 * k)
        for r in c.firsts():
            text = (
                f"next batch took {c.pace * (0.6 + 0.2 * k) + c.rng.uniform(0, 0.2):.2f}s (usual "
                "0.01s), prefetch queue 0/128"
            )
            c.log(r, text, "W", ROOT, "late", c.rng.random())
    stop_or_copy(c)
    c.blame("performance/slow_dataloader", "slow", "training")


@FOUND.course(("lingua", "tessera", "primus", "smp_hyperpod", "yunke", "axlearn", "fleetx"))
def one_is_always_last(c: Case) -> None:
    """Timings of the ranks show one machine that is always last; nothing says why."""
    start(c, 20, 40)
    for _ in range(3):
        c.train(4, 8)
        usual(c, "", 1.0)
    c.mark()
    for _ in range(c.rng.randint(5, 10)):
        slow = c.rng.uniform(1.5, 1.9)
        c.train(4, 8, slow)
        usual(c, ROOT, slow)
    stop_or_copy(c)
    c.blame("performance/straggler", "slow", "training", [c.v])


def usual(c: Case, role: str, slow: float) -> None:
    """The table of computing times of an iteration."""
    last = c.vr if role else c.rng.randrange(c.world)
    own = c.pace * 0.71
    text = (
        f"compute time over ranks: min {own:.3f}s median {own * 1.01:.3f}s max {own * slow:.3f}s "
        f"(rank {last} on {c.host(last)})"
    )
    c.log(0, text, "W" if role else "I", role, "table" if role else "")


@FOUND.course(VERBS)
def cable_with_errors(c: Case) -> None:
    """One port's symbol errors and retransmissions grow, and all reductions are slow; the link stays up."""
    nodes = range(len(c.nodes))
    bad, retry = c.rng.randrange(5), c.rng.randrange(9)

    def sample(is_bad: bool) -> None:
        nonlocal bad, retry
        t, _ = c.stamp(None)
        for k in nodes:
            mine = is_bad and k == c.v
            bad, retry = (
                (bad + c.rng.randrange(900, 90_000), retry + c.rng.randrange(500, 9000)) if mine else (bad, retry)
            )
            told = (
                f"symbol_errors={bad} retransmissions={retry}"
                if mine
                else f"symbol_errors={k % 3} retransmissions={k % 5}"
            )
            c.add(
                "netmon/port_counters.tsv",
                f"{t.iso}\t{c.nodes[k]}\tmlx5_{c.dialect % 8}/1\tactive\t400G\t{told}",
                ROOT if mine else "",
                "errors" if mine else "",
            )

    c.ready()
    for _ in range(3):
        c.train(8, 14)
        sample(False)
    quiet(c)
    c.mark()
    for _ in range(c.rng.randint(5, 10)):
        slow = c.rng.uniform(1.6, 2.3)
        c.train(4, 8, slow)
        sample(True)
        c.log(0, f"reduce-scatter bus bandwidth {360 / slow / 2:.1f} GB/s, 24h median 361.4 GB/s", "W", ROOT, "busbw")
    c.closed("cancel", CONTEXT)
    c.blame(
        "performance/slow_network",
        "slow",
        "training",
        [c.v],
        also="network/packet_loss hardware/nic_link_flap network/rdma_congestion",
    )


@FOUND.course(ALL)
def slower_for_everybody(c: Case) -> None:
    """From an iteration on all steps take longer, and no rank leads: the sequences became longer."""
    start(c, 40, 70)
    c.mark()
    c.log(0, f"curriculum: sequence length is 8192 from step {c.n + 1} on (was 4096)", "I", CONTEXT)
    for _ in range(c.rng.randint(3, 5)):
        c.train(8, 12, 1.9)
        c.log(
            0,
            f"iteration time p50 {c.pace * 1.9:.2f}s is {90 + c.dialect % 5}% above the job's "
            f"baseline {c.pace:.2f}s, spread over ranks 0.8%",
            "W",
            ROOT,
            "baseline",
        )
    stop_or_copy(c)
    c.blame("performance/slow_step", "slow", "training")


@FOUND.course(TORCH, 4, 24)
def stands_after_the_save(c: Case) -> None:
    """A rank does not come back from writing its shard; nothing times out, nothing says why, somebody ends the job."""
    start(c, 20, 50, save=12)
    c.voice.save(c, True)
    c.mark()
    for r in c.alive():
        if r != c.vr:
            c.log(
                r, f"shard {r} written in {c.rng.uniform(3, 9):.1f}s, waiting at the barrier", dt=c.rng.uniform(3, 10)
            )
    c.wait(10, 12)
    for k in range(c.rng.randint(5, 12)):
        c.wait(600, 700)
        text = f"barrier after the checkpoint: {c.world - 1}/{c.world} ranks after {600 * (k + 1)}s, missing [{c.vr}]"
        c.log(0 if c.vr else c.w * c.per, text, "W", ROOT, "missing")
    c.closed("cancel", CONTEXT)
    c.blame(
        "hardware/process_stuck",
        "hang",
        "checkpoint_save",
        [c.v],
        also="framework/nccl_internal platform/storage_outage",
    )
