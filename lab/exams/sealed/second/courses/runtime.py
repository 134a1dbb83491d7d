"""Courses in which the software between program and machines is at fault."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.second import peers
from lab.exams.sealed.second.courses.base import ALL, CUDA, TORCH, Found, quiet, start

FOUND = Found()


@FOUND.course(ALL, 4, 32)
def one_never_joins(c: Case) -> None:
    """All but one machine wait for the last one, which belongs to the job and never printed a line."""
    c.v = max(1, c.v)
    c.voice.launched(c)
    c.gone.add(c.v)
    here = [k for k in range(len(c.nodes)) if k != c.v]
    for k in here:
        c.log(
            k * c.per,
            f"rank {k * c.per} on {c.nodes[k]} ({c.ips[k]}): joined, waiting for {len(c.nodes)} machines",
            dt=c.rng.uniform(0, 5),
        )
    quiet(c, 0.2)
    for k in range(1, 6):
        c.log(0, f"rendezvous: {len(here)}/{len(c.nodes)} machines after {k * 120}s", "W", ROOT, "count", 120.0 * k)
    c.now += 620
    for k in here:
        c.trace(
            k * c.per,
            (f"RuntimeError: rendezvous closed after 600s: {len(here)} of {len(c.nodes)} machines joined",),
            ROOT,
            "closed",
            "init",
            c.rng.random(),
        )
    c.wait(2, 5)
    c.died(here[0] * c.per, 1)
    c.closed("fail")
    c.blame("framework/rendezvous_timeout", "launch_failure", "rendezvous launch", [c.v], also="hardware/node_lost")


@FOUND.course(("lingua", "clipper", "yunke", "tessera", "bmtrain", "primus", "smp_hyperpod"))
def archive_is_cut(c: Case) -> None:
    """The newest checkpoint was cut: every rank that reads it fails alike."""
    c.n = c.saved = max(c.n, 500)
    c.voice.launched(c)
    c.voice.boot(c)
    quiet(c, 0.3)
    for r in c.some(c.alive(), 6, 40):
        c.trace(
            r,
            ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",),
            ROOT,
            "zip",
            "load",
            c.rng.uniform(0, 8),
        )
    c.now += 10
    c.died(c.rng.choice(c.alive()), 1)
    c.closed("fail")
    c.blame("framework/ckpt_corrupt", "launch_failure crash", "checkpoint_load")


@FOUND.course(("tessera", "axlearn", "lingua", "fleetx", "xtuner_npu"))
def one_shard_fails_its_checksum(c: Case) -> None:
    """One shard of the checkpoint was damaged; one rank reads it, and its machine is not at fault."""
    c.n = c.saved = max(c.n, 300)
    c.voice.launched(c)
    c.voice.boot(c)
    quiet(c, 0.3)
    want, got = f"{c.rng.getrandbits(32):08x}", f"{c.rng.getrandbits(32):08x}"
    c.trace(
        c.vr,
        (
            f"ValueError: shard {c.vr} of step {c.n}: crc32c mismatch, manifest says {want}, "
            f"data has {got}; refusing to load",
        ),
        ROOT,
        "crc",
        "load",
    )
    c.wait(1, 4)
    c.blame("framework/ckpt_corrupt", "launch_failure crash", "checkpoint_load", origin=[c.v])
    peers.fall(c)


@FOUND.course(("lingua", "primus", "tessera", "smp_hyperpod", "bmtrain", "yunke"))
def checkpoint_of_another_shape(c: Case) -> None:
    """The checkpoint was made with other sizes than the configuration asks for."""
    c.n = c.saved = max(c.n, 900)
    c.voice.launched(c)
    c.voice.boot(c)
    width = 4096 + 1024 * (c.dialect % 4)
    for r in c.alive():
        if c.rng.random() < 0.6:
            what = (
                "RuntimeError: Error(s) in loading state_dict for Decoder:",
                "\tsize mismatch for layers.0.attention.wq.weight: copying a param with shape "
                f"torch.Size([{width}, {width}]) from checkpoint, "
                f"the shape in current model is torch.Size([{width // 8}, {width}]).",
            )
            c.trace(r, what, ROOT, "sizes", "load", c.rng.uniform(0, 4))
            c.lines[-1] = c.lines[-1]._replace(role=ROOT, tid="mismatch")
    c.now += 5
    c.died(c.rng.choice(c.alive()), 1)
    c.closed("fail")
    c.blame(
        "framework/ckpt_corrupt",
        "launch_failure crash",
        "checkpoint_load model_build",
        also="user/shape_mismatch user/bad_config",
    )


@FOUND.course(CUDA)
def rank_enters_other_collective(c: Case) -> None:
    """A branch that depends on the rank lets one rank enter another collective."""
    start(c)
    c.mark()
    seq = c.n * 37
    mine = (
        f"OpType=BROADCAST, TensorShape=[{c.dialect}], TensorDtypes=Long, TensorDeviceTypes=TensorOptions(device=cuda)"
    )
    rest = "OpType=ALLREDUCE, TensorShape=[1], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(device=cuda)"
    for r in c.some(c.peers(), 3, 30):
        text = (
            f"RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running "
            "collective: CollectiveFingerPrint("
            f"SequenceNumber={seq}, {rest}), but Rank {c.vr} is running collective: "
            f"CollectiveFingerPrint(SequenceNumber={seq}, {mine})."
        )
        c.trace(r, (text,), ROOT, "fingerprint", "reduce", c.rng.random())
    c.wait(2, 5)
    c.died(c.peers()[0], 1)
    c.closed("fail")
    c.blame("framework/collective_mismatch", "crash", "training", origin=[c.v])


@FOUND.course(("lingua", "yunke", "tessera", "smp_hyperpod", "primus", "xtuner_npu", "axlearn", "clipper"))
def timeout_on_all_ranks(c: Case) -> None:
    """All ranks time out in the same collective at the same second; nothing else is said anywhere."""
    start(c)
    c.mark()
    peers.timeout(c, c.alive(), ROOT)
    c.wait(3, 8)
    c.died(c.rng.choice(c.alive()), -6)
    c.closed("fail")
    c.blame("framework/nccl_internal", "hang crash", "training")


@FOUND.course(("lingua", "clipper", "trl_lsf", "yunke", "tessera", "bmtrain", "primus"))
def data_worker_timeout(c: Case) -> None:
    """The data workers of one rank do not answer; the rank says so after its time-out."""
    start(c)
    c.mark()
    limit = c.rng.choice((120, 300, 600))
    c.now += limit
    pids = ", ".join(str(c.pids[c.vr] + k) for k in (411, 412))
    if c.rng.random() < 0.5:
        c.log(
            c.vr,
            f"batch {c.n + 1} of this rank is late: {limit // 2}s, {c.dialect % 7 + 1} of 8 workers idle",
            "W",
            ROOT,
            "late",
            -limit / 2,
        )
    c.trace(
        c.vr,
        (f"RuntimeError: DataLoader timed out after {limit} seconds", f"(workers {pids} still alive)"),
        ROOT,
        "timed",
        "data",
    )
    c.blame("framework/dataloader_hang", "crash hang", "training", origin=[c.v])
    peers.fall(c)


@FOUND.course(("clipper", "yunke", "trl_lsf", "fleetx"))
def shared_memory_too_small(c: Case) -> None:
    """The containers were given too little shared memory: workers die of it on several machines."""
    c.ready()
    c.train(1, 6)
    quiet(c, 0.2)
    c.mark()
    for r in c.some(c.alive(), 4, 20):
        c.raw(
            r,
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm).",
            ROOT,
            "bus",
            c.rng.uniform(0, 5),
        )
        c.trace(
            r,
            (f"RuntimeError: DataLoader worker (pid(s) {c.pids[r] + 77}) exited unexpectedly",),
            SECOND,
            "worker",
            "data",
            6,
        )
    c.now += 8
    c.died(c.rng.choice(c.alive()), 1)
    c.closed("fail")
    c.blame("user/bad_config", "crash launch_failure", "training launch", also="framework/dataloader_hang")


@FOUND.course(("clipper", "smp_hyperpod", "tessera"))
def agent_gives_up(c: Case) -> None:
    """The launcher restarts the workers until its restarts are used; no worker prints a reason."""
    c.ready()
    c.train(8, 20, save=4)
    for attempt in range(3):
        c.mark()
        first = c.v * c.per
        c.died(c.vr, 1, SECOND if attempt == 2 else CONTEXT)
        t, us = c.stamp(c.v, 2)
        where = f"{c.pids[first] - 1} torch/distributed/elastic/agent/server/api.py"
        if attempt < 2:
            text = f"[default] Worker group FAILED. {2 - attempt}/2 attempts left; will restart worker group"
            c.agent(first, f"I{t.mmdd} {t.time}.{us // 1000:03d}000 {where}:899] {text}", ROOT, "restart", 2)
            c.again()
            c.voice.boot(c)
            c.train(5, 14, save=3)
        else:
            text = "[default] Worker group FAILED. No attempts left, stopping worker group"
            c.agent(first, f"E{t.mmdd} {t.time}.{us // 1000:03d}000 {where}:905] {text}", ROOT, "last", 2)
    c.closed("fail")
    c.blame(
        "framework/elastic_restart", "crash", "training", origin=[c.v], also="user/user_code_exception unknown/unknown"
    )


@FOUND.course(TORCH)
def files_left_open(c: Case) -> None:
    """The limit of open files is used up after some time, on all machines alike."""
    start(c, 30, 90)
    c.mark()
    for r in c.some(c.alive(), 4, 24):
        c.trace(
            r,
            (f"OSError: [Errno 24] Too many open files: '/data/tokens/part-{c.n % 99_999:05d}.bin'",),
            ROOT,
            "emfile",
            "data",
            c.rng.uniform(0, 9),
        )
    c.now += 11
    c.died(c.rng.choice(c.alive()), 1)
    c.closed("fail")
    c.blame("user/bad_config", "crash", "training", also="user/user_code_exception")


@FOUND.course(("trl_lsf", "lingua", "openrlhf", "yunke", "bmtrain"))
def tokenizer_breaks_natively(c: Case) -> None:
    """One rank's process ends in native code after a sample; the stack names a tokenizer's library."""
    start(c)
    c.mark()
    pid = c.pids[c.vr]
    lib = c.rng.choice(("tokenizers.abi3.so", "_decord.so", "libarrow.so.1700", "_fast_bpe.so"))
    c.kern(
        c.v,
        f"python3[{pid}]: segfault at 7f{pid:x}000 ip 00007f31{c.dialect:04x}1c2e sp "
        f"00007ffc{c.dialect:04x}8810 error 4 in {lib}[7f31+5c2000]",
        ROOT,
        "segfault",
    )
    c.raw(c.vr, "Fatal Python error: Segmentation fault", ROOT, "faulthandler", 0.1)
    c.raw(
        c.vr,
        f'  File "/opt/venv/lib/python3.11/site-packages/data/encode.py", line {c.dialect} in encode_batch',
        CONTEXT,
        "",
        0.11,
    )
    c.wait(0.5, 2)
    c.blame("user/native_crash", "crash", "training", origin=[c.v])
    peers.fall(c, -11)
