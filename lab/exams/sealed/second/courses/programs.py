"""Courses in which the program, its data or its numbers are at fault."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.second import peers
from lab.exams.sealed.second.courses.base import CUDA, TORCH, Found, bdf, quiet, start, stop

FOUND = Found()
NONE = "'NoneType' object has no attribute 'group'"


@FOUND.course(CUDA)
def long_sequence_late(c: Case) -> None:
    """After many iterations one rank gets a long sample, and its memory is in pieces."""
    start(c, 50, 140)
    c.mark()
    free, want = c.rng.uniform(0.4, 1.9), c.rng.uniform(2, 6)
    if c.rng.random() < 0.6:
        c.log(
            c.vr,
            f"longest sequence of this batch: {c.rng.randrange(24, 64) * 1000} tokens (mean 3100), "
            "allocation retries: 4",
            "W",
            CONTEXT,
            "",
        )
    c.trace(
        c.vr,
        (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {want:.2f} GiB. "
            f"GPU {c.vr % c.per} has a total capacity of 79.11 GiB of "
            f"which {free:.2f} GiB is free. Of the allocated memory 63.70 GiB is allocated by "
            f"PyTorch, and {want + 5:.2f} GiB is reserved "
            "by PyTorch but unallocated.",
        ),
        ROOT,
        "oom",
        "backward",
    )
    c.blame("user/cuda_oom", "crash", "training", origin=[c.v])
    peers.fall(c)


@FOUND.course(("axlearn", "xtuner_npu", "fleetx", "primus"))
def too_large_from_the_start(c: Case) -> None:
    """The batch does not fit, on no device."""
    c.ready()
    quiet(c, 0.2)
    c.mark()
    what = {
        "jax": (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory "
            "space hbm. Used 107.21G of 95.74G hbm.",
        ),
        "hccl": (
            "RuntimeError: NPU out of memory. Tried to allocate 3.91 GiB (NPU 0; 61.00 GiB total "
            "capacity; 57.70 GiB already allocated)",
        ),
        "paddle": (
            "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 4.500000GB memory "
            "on GPU 0, 78.1GB has been allocated",
        ),
        "rccl": (
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 14.00 GiB. GPU 0 has a "
            "total capacity of 191.98 GiB",
        ),
    }[c.voice.stack]
    for r in c.alive():
        if c.rng.random() < 0.7 and (c.voice.stack != "jax" or r % c.per == 0):
            c.trace(r, what, ROOT, "oom", "step", c.rng.uniform(0, 3))
    stop(c)
    c.blame("user/cuda_oom", "launch_failure crash", "training model_build")


@FOUND.course(("lingua", "tessera", "yunke", "clipper", "xtuner_npu"))
def host_memory_grows(c: Case) -> None:
    """The main memory of all machines grows from iteration to iteration until the first is at its limit."""
    c.ready()
    use = 310.0
    for _ in range(c.rng.randint(8, 14)):
        c.train(6, 12)
        use += c.rng.uniform(60, 100)
        for r in c.firsts():
            c.log(
                r,
                f"host memory: rss of all processes {use + c.rng.uniform(-5, 5):.1f} GiB of 1433 "
                f"GiB, dataset cache entries {int(use * 911)}",
                "I",
                ROOT if use > 700 else CONTEXT,
                "rss" if use > 700 else "",
                c.rng.random(),
            )
    quiet(c)
    c.mark()
    pid = c.pids[c.vr]
    c.kern(
        c.v,
        f"Out of memory: Killed process {pid} (python3) total-vm:{int(use * 1.3e6)}kB, "
        f"anon-rss:{int(use * 1.2e5)}kB, oom_score_adj:0",
        ROOT,
        "oom",
    )
    c.blame(
        "user/host_memory_leak",
        "crash",
        "training",
        origin=[c.v],
        also="hardware/host_oom",
    )
    peers.fall(c, -9)


@FOUND.course(CUDA)
def token_outside_the_vocabulary(c: Case) -> None:
    """A sample of one rank holds a token that the vocabulary has not."""
    start(c)
    c.mark()
    for k in range(c.rng.randint(3, 12)):
        c.raw(
            c.vr,
            "../aten/src/ATen/native/cuda/Indexing.cu:1369: indexSelectLargeIndex: block: "
            f"[{c.dialect + k},0,0], thread: [{32 + k},0,0] Assertion "
            "`srcIndex < srcSelectDimSize` failed.",
            ROOT,
            "assert",
            0.001 * k,
        )
    c.trace(c.vr, ("RuntimeError: CUDA error: device-side assert triggered",), SECOND, "dsa", "step", 0.3)
    c.wait(0.5, 2)
    c.blame("user/bad_data_assert", "crash", "training", origin=[c.v])
    peers.fall(c, -6)


@FOUND.course(TORCH)
def sample_without_pixels(c: Case) -> None:
    """A damaged sample ends the one rank that read it."""
    start(c)
    c.mark()
    shard = f"shard-{c.dialect:05d}.tar"
    text = (
        f"ValueError: sample {c.n * 977} in {shard}: expected 3 channels and at least 1 row, got shape (0, 0)",
        f"json.decoder.JSONDecodeError: Unterminated string starting at: line 1 column {c.n * 7 + 40} "
        f"(char {c.n * 7 + 39})",
        f"pyarrow.lib.ArrowInvalid: Column 'text' in {shard}.parquet: malformed UTF-8 in row {c.n * 977}",
    )[c.variant % 3]
    if c.rng.random() < 0.5:
        c.log(c.vr, f"decoding sample {c.n * 977} of {shard}", "D", CONTEXT)
    c.trace(
        c.vr,
        (text,),
        ROOT,
        "sample",
        "data",
    )
    c.blame("user/bad_data_assert", "crash", "training", origin=[c.v], also="user/user_code_exception")
    peers.fall(c)


@FOUND.course(("lingua", "tessera", "primus", "axlearn", "yunke", "smp_hyperpod", "xtuner_npu"))
def loss_runs_away(c: Case) -> None:
    """The loss climbs for a while and is no number then; the guard stops the job."""
    start(c, 30, 60)
    for k in range(4):
        c.bump, c.gnorm = 0.6 * 2**k, 8.0 * 3**k
        c.train(1, 2)
    c.mark()
    what = c.rng.choice(("loss is nan", "gradient norm is inf"))
    for k in range(3):
        c.log(
            0,
            f"step {c.n + 1}: {what} on {c.world} of {c.world} ranks, skipped ({k + 1} in a row, limit 3)",
            "W",
            ROOT,
            "skip",
            k * c.pace,
        )
    c.now += 3 * c.pace
    c.trace(0, (f"FloatingPointError: {what} in 3 steps in a row, giving up at step {c.n + 1}",), ROOT, "fpe", "step")
    c.wait(1, 3)
    for r in c.some(c.alive()[1:], 3, 12):
        c.trace(
            r,
            (f"FloatingPointError: {what} in 3 steps in a row, giving up at step {c.n + 1}",),
            ROOT,
            "fpe",
            "step",
            c.rng.random(),
        )
    stop(c, 0)
    c.blame("user/nan_divergence", "crash", "training")


@FOUND.course(("bmtrain",))
def scale_falls_to_one(c: Case) -> None:
    """The loss scale is halved again and again and never recovers; nothing stops the job but somebody."""
    start(c, 30, 60)
    c.mark()
    for _ in range(16):
        c.bump += 1
        c.raw(
            0,
            f"Gradient overflow, scale loss from {65536 / 2 ** (c.bump - 1):.1f} to {65536 / 2**c.bump:.1f}",
            ROOT,
            "overflow",
        )
        c.train(1, 2)
    for _ in range(c.rng.randint(5, 15)):
        c.raw(0, "Gradient overflow, loss scale is at its minimum 1.0, step skipped", ROOT, "minimum")
        c.train(1, 1)
    c.closed("cancel", CONTEXT)
    c.blame("user/nan_divergence", "crash slow hang", "training")


@FOUND.course(("openrlhf",))
def reward_has_no_key(c: Case) -> None:
    """The reward function meets an answer that it has not thought of."""
    start(c, 8, 30)
    c.mark()
    c.raw(c.vr, "Traceback (most recent call last):", CONTEXT)
    c.raw(c.vr, f'  File "/home/{c.user}/rewards/math_verify.py", line 88, in score_batch', CONTEXT)
    c.raw(c.vr, "    final = score_one(parsed, gold)", CONTEXT)
    kind, text = (("KeyError", "'boxed'"), ("ZeroDivisionError", "division by zero"), ("AttributeError", NONE))[
        c.variant % 3
    ]
    c.raw(c.vr, f"{kind}: {text}", ROOT, "key")
    c.add(
        f"driver-{c.job}.log",
        f"ray.exceptions.RayTaskError({kind}): \x1b[36mray::PolicyModelActor.make_experience()\x1b[39m",
        SECOND,
        "task",
        0.5,
    )
    c.wait(1, 4)
    c.closed("fail")
    c.blame("user/user_code_exception", "crash", "training", origin=[c.v])


@FOUND.course(("tessera", "clipper", "trl_lsf", "yunke", "lingua", "fleetx"))
def last_batch_of_evaluation(c: Case) -> None:
    """The last batch of the evaluation is smaller than the program assumes, on every rank."""
    start(c, 20, 60)
    c.voice.evaluate(c, True)
    c.mark()
    c.wait(20, 90)
    left = c.dialect % 14 + 1
    for r in c.some(c.alive(), 5, 48):
        c.trace(
            r,
            (
                f"RuntimeError: The size of tensor a ({left}) must match the size of tensor b "
                "(16) at non-singleton dimension 0",
            ),
            ROOT,
            "shape",
            "eval",
            c.rng.random(),
        )
    stop(c)
    c.blame("user/shape_mismatch", "crash", "evaluation training")


@FOUND.course(("axlearn", "lingua", "tessera", "openrlhf"))
def key_has_expired(c: Case) -> None:
    """The credentials of the object store run out while the job reads; every machine is refused."""
    start(c)
    c.mark()
    for r in c.some(c.firsts(), 2, 20):
        for k in range(2):
            c.log(
                r,
                f"read of part-{c.n + k:06d}.parquet refused: 403 ExpiredToken: The provided "
                f"token has expired. Retry {k + 1}/2",
                "W",
                ROOT,
                "expired",
                5 * k + c.rng.uniform(0, 2),
            )
        c.trace(
            r,
            (
                "PermissionError: An error occurred (ExpiredToken) when calling the GetObject "
                "operation: The provided token has expired.",
            ),
            ROOT,
            "perm",
            "data",
            11,
        )
    c.now += 12
    stop(c)
    c.blame("platform/storage_outage", "crash", "training", also="user/dataset_missing user/bad_config")


@FOUND.course(("lingua", "yunke", "tessera"))
def illegal_address_of_a_kernel(c: Case) -> None:
    """A GPU kernel reads an invalid address; nothing shows whether code or device is at fault."""
    start(c)
    c.mark()
    c.kern(
        c.v,
        f"NVRM: Xid (PCI:{bdf(c, c.vr)}): 31, pid={c.pids[c.vr]}, name=python3, Ch "
        f"0000000{c.dialect % 9}, intr 00000000. MMU Fault: ENGINE GRAPHICS "
        "GPCCLIENT_T1_4 faulted @ 0x7f2c_aa000000. Fault is of type FAULT_PDE "
        "ACCESS_TYPE_VIRT_READ",
        ROOT,
        "xid31",
    )
    c.trace(
        c.vr, ("RuntimeError: CUDA error: an illegal memory access was encountered",), ROOT, "illegal", "backward", 0.2
    )
    c.wait(1, 3)
    c.blame("hardware/gpu_kernel", "crash", "training", [c.v], also="user/native_crash user/user_code_exception")
    peers.fall(c)
