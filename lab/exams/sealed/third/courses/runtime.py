"""Courses in which launching, checkpoints, collectives or data loading fail between program and machines."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.third import peers
from lab.exams.sealed.third.courses.base import ALL, LINUX, NVIDIA, TORCH, Found, alike, end, quiet, run, start_up

FOUND = Found()


@FOUND.course(LINUX)
def roll_call_incomplete(c: Case) -> None:
    """One machine never says that it is there."""
    c.voice.launched(c)
    here = [r for r in c.firsts() if c.node(r) != c.v]
    for r in here:
        c.log(
            r, f"{c.host(r)} ({c.ips[c.node(r)]}) waits for the others, {len(c.nodes)} expected", dt=c.rng.random() * 3
        )
    for k in range(1, 6):
        text = f"roll call: {len(c.nodes) - 1}/{len(c.nodes)} after {60 * k} s, missing {c.victim}"
        c.log(here[0], text, "W", ROOT, "call", 60 * k)
    c.wait(310)
    for r in here:
        c.trace(
            r, (f"TimeoutError: roll call not complete after 300 s, {len(c.nodes) - 1} present",), ROOT, "late", "init"
        )
    quiet(c, 0.3)
    end(c, here[0])
    c.blame(
        "framework/rendezvous_timeout", "launch_failure hang", "rendezvous launch", [c.v], also="hardware/node_lost"
    )


@FOUND.course(ALL)
def address_in_use(c: Case) -> None:
    """The port of the meeting point is taken by somebody else."""
    c.voice.launched(c)
    c.wait(4)
    what = f"OSError: [Errno 98] Address already in use: could not listen on {c.ips[0]}:29577"
    c.trace(0, (what,), ROOT, "inuse", "init")
    for r in c.firsts()[1:]:
        c.log(r, f"{c.host(r)} cannot reach {c.ips[0]}:29577: connection refused, giving up", "E", SECOND, "refused", 9)
    quiet(c, 0.3)
    c.wait(10)
    end(c, 0)
    c.blame(
        "framework/rendezvous_timeout",
        "launch_failure",
        "rendezvous launch",
        also="user/bad_config platform/scheduler",
    )


@FOUND.course(TORCH)
def header_of_a_tensor_file(c: Case) -> None:
    """A shard that was cut cannot be read at the start."""
    start_up(c)
    what = (
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        f"while reading model-{c.dialect % 30:05d}-of-00030.safetensors of checkpoint {c.n}",
    )
    alike(c, what, "load")
    c.blame("framework/ckpt_corrupt", "launch_failure crash", "checkpoint_load model_build")


@FOUND.course(("paxml",))
def array_index_damaged(c: Case) -> None:
    start_up(c)
    what = (f"ValueError: DATA_LOSS: Error reading manifest.ocdbt of step {c.n}: CRC-32C checksum mismatch",)
    alike(c, what, "load")
    c.blame("framework/ckpt_corrupt", "launch_failure crash", "checkpoint_load model_build")


@FOUND.course((*NVIDIA, "flux_rocm"))
def unlike_sizes(c: Case) -> None:
    """One rank enters a collective with another size; a check of the program shows it."""
    run(c)
    c.mark()
    for r in c.some(c.peers(), 4, 20):
        what = (
            f"RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running collective: "
            f"CollectiveFingerPrint(SequenceNumber={c.n * 5}, OpType=ALLGATHER, TensorShape=[4096]), but Rank {c.vr} is"
            f" running collective: CollectiveFingerPrint(SequenceNumber={c.n * 5}, OpType=ALLGATHER, TensorShape=[93])."
        )
        c.trace(r, (what,), ROOT, "unlike", "reduce", c.rng.random())
    end(c, c.peers()[0])
    c.blame("framework/collective_mismatch", "crash", "training", origin=[c.v])


@FOUND.course(LINUX)
def feeder_stands(c: Case) -> None:
    """A feeding process of one rank does not deliver; everybody waits for that rank."""
    run(c)
    c.mark()
    for k in range(1, 7):
        text = f"feed of rank {c.vr}: no batch for {k * 120} s, worker 3 alive but silent, queue 0/16"
        c.log(c.vr, text, "W", ROOT, "feed", dt=120 * k)
    c.wait(60)
    peers.stuck(c)
    c.blame("framework/dataloader_hang", "hang crash", "training", [c.v])


@FOUND.course(LINUX)
def feeder_dies(c: Case) -> None:
    run(c)
    c.mark()
    c.log(c.vr, f"feed process 5 (pid {c.pids[c.vr] + 70}) ended with exitcode -11", "E", ROOT, "feedend")
    what = f"RuntimeError: feed: process 5 of rank {c.vr} exited unexpectedly while a batch was awaited"
    c.trace(c.vr, (what,), ROOT, "feedgone", "data", 0.5)
    peers.fall(c, 1)
    c.blame("framework/dataloader_hang", "crash", "training", [c.v], also="user/native_crash hardware/process_killed")


@FOUND.course((*NVIDIA, "flux_rocm", "moteur"))
def waits_and_nobody_says_why(c: Case) -> None:
    """All ranks time out, no line says who or why."""
    run(c)
    c.mark()
    peers.timeout(c, c.some(c.alive(), max(4, c.world // 3), c.world), ROOT)
    c.wait(4)
    c.died(c.alive()[0], -6)
    c.wait(2)
    c.closed("fail")
    c.blame("framework/nccl_internal", "hang crash", "training", also="unknown/unknown")


@FOUND.course(("torchft_nomad",))
def quorum_below_the_minimum(c: Case) -> None:
    """Replicas leave one after another without a word of their own until too few are left."""
    run(c)
    c.mark()
    for k in range(1, 4):
        text = f"quorum {c.dialect + k}: replica group restarted by its supervisor, attempt {k}/3"
        c.log(0, text, "W", ROOT, "again", dt=70 * k)
    c.wait(230)
    c.log(0, "replica group failed again, max_restarts=3 exhausted, lighthouse gives up", "E", ROOT, "exhausted")
    c.closed("fail")
    quiet(c)
    c.blame("framework/elastic_restart", "crash", "training", also="unknown/unknown")


@FOUND.course(NVIDIA)
def library_of_another_driver(c: Case) -> None:
    """One machine was installed with an older driver."""
    c.voice.launched(c)
    for r in c.firsts():
        c.log(
            r,
            f"{c.host(r)} ({c.ips[c.node(r)]}) driver {'550.54' if c.node(r) == c.v else '575.57'}",
            dt=c.rng.random(),
        )
    what = ("RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update it",)
    for r in range(c.v * c.per, (c.v + 1) * c.per):
        c.trace(r, what, ROOT, "old", "device", 3 + c.rng.random())
    c.wait(8)
    for r in c.some(c.peers(), 2, 6):
        c.log(r, "a member left while the group was formed", "E", SECOND, "left", 5)
    end(c, c.vr)
    c.kern(c.v, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", CONTEXT, "", -200)
    c.blame(
        "user/bad_config", "launch_failure crash", "launch rendezvous model_build", [c.v], also="platform/device_alloc"
    )
