"""Courses of schedulers, containers and shared storage."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.third import peers
from lab.exams.sealed.third.courses.base import LINUX, NVIDIA, PODS, Found, alike, end, quiet, run

FOUND = Found()


def told_to_stop(c: Case, how: str) -> None:
    """The scheduler ends a job that was well."""
    run(c, save=15)
    c.mark()
    c.wait(1, 5)
    c.closed(how, ROOT, how)
    peers.ended(c, c.firsts())
    c.wait(10)


@FOUND.course()
def somebody_more_important(c: Case) -> None:
    told_to_stop(c, "preempt")
    c.blame("platform/preemption", "crash", "training", outcome="preempted")


@FOUND.course()
def booked_hours_are_over(c: Case) -> None:
    told_to_stop(c, "limit")
    c.blame("platform/time_limit", "crash", "training", outcome="timeout")


@FOUND.course()
def user_thinks_better_of_it(c: Case) -> None:
    told_to_stop(c, "cancel")
    c.blame("platform/cancelled", "crash", "training", outcome="cancelled")


@FOUND.course(PODS)
def registry_says_no(c: Case) -> None:
    c.voice.launched(c)
    for k, name in enumerate(c.nodes):
        text = f"{name}: Failed to pull image harbor.lan/llm/train:r{c.dialect}: unauthorized: project llm is private"
        c.ctl(text, ROOT, "pull", 9 + k / 9)
        c.ctl(f"{name}: Back-off pulling image harbor.lan/llm/train:r{c.dialect}", CONTEXT, "", 31 + k / 9)
    c.now += 400
    c.closed("fail")
    for _ in range(3):
        quiet(c, 0.95)
    c.blame("platform/image_pull", "launch_failure", "launch")


@FOUND.course(NVIDIA)
def seven_of_eight(c: Case) -> None:
    """One machine offers a device less than its job was promised."""
    c.voice.launched(c)
    for r in c.firsts():
        have = c.per - (c.node(r) == c.v)
        text = f"{c.host(r)} ({c.ips[c.node(r)]}): {have} devices visible, {c.per} expected"
        is_bad = have < c.per
        c.log(r, text, "E" if is_bad else "I", ROOT if is_bad else "", "devices" if is_bad else "", 2)
    last = c.v * c.per + c.per - 1
    what = "torch.AcceleratorError: CUDA error: invalid device ordinal"
    c.trace(last, (what,), ROOT, "ordinal", "device", 3)
    quiet(c, 0.3)
    c.wait(6)
    end(c, last)
    c.blame(
        "platform/device_alloc",
        "launch_failure crash",
        "launch model_build rendezvous",
        [c.v],
        also="hardware/gpu_off_bus user/bad_config",
    )


@FOUND.course()
def group_has_written_enough(c: Case) -> None:
    run(c, save=12)
    c.mark()
    c.voice.save(c, True)
    c.wait(5)
    what = f"OSError: [Errno 122] Disk quota exceeded: '/projects/{c.run}/state-{c.n}'"
    alike(c, (what,), "save")
    c.blame("platform/storage_quota", "crash", "checkpoint_save")


@FOUND.course(LINUX)
def handle_is_stale(c: Case) -> None:
    """The shared file system goes away under everybody."""
    run(c)
    c.mark()
    for k in c.some(range(len(c.nodes)), 3, 12):
        c.kern(k, "nfs: server vast-data-02 not responding, timed out", ROOT, "nfs", c.rng.uniform(0, 30))
    c.wait(40)
    alike(c, (f"OSError: [Errno 116] Stale file handle: '/vast/feed/{c.n:07d}.arrow'",), "data")
    c.blame("platform/storage_outage", "crash hang", "training")


@FOUND.course(("paxml", "swift_dlc", "torchft_nomad"))
def bucket_closed_for_hours(c: Case) -> None:
    run(c, save=20)
    c.mark()
    c.voice.save(c, True)
    ranks = c.some(c.firsts(), 2, 8)
    for k in range(1, 7):
        for r in ranks:
            c.log(r, f"PUT state-{c.n}/{r}: 503 backendError, attempt {k}/6", "W", ROOT, "put", 2.0**k)
    c.wait(70)
    for r in ranks:
        c.trace(
            r, (f"TransportError: PUT state-{c.n}/{r} failed after 6 attempts: 503 backendError",), ROOT, "gave", "save"
        )
    end(c, ranks[0])
    c.blame("platform/storage_outage", "crash", "checkpoint_save")


@FOUND.course(("kagami", "moteur", "flux_rocm", "pbs_xpu"))
def prologue_ends_badly(c: Case) -> None:
    """The scheduler's own script fails before the program starts."""
    c.voice.launched(c)
    for k in range(3):
        c.ctl(f"prologue on {c.victim} ended with status 1: cannot create cgroup job_{c.job}", ROOT, "prologue", 20 * k)
        c.ctl("start is tried again", CONTEXT, "", 20 * k + 4)
    c.now += 75
    c.ctl(f"start given up after 3 attempts, {c.victim} is set offline", SECOND, "offline")
    c.closed("fail")
    for _ in range(3):
        quiet(c, 0.95)
    c.blame("platform/scheduler", "launch_failure", "launch", [c.v])
