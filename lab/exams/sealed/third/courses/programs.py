"""Courses in which the program, its configuration or its data is at fault: most are one traceback on many ranks."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.third import peers
from lab.exams.sealed.third.courses.base import LINUX, TORCH, Found, alike, end, kernel, quiet, run, start_up

FOUND = Found()
_DEVICE = {
    "nccl": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {a}.00 GiB. GPU {l} has a total capacity of "
    "79.11 GiB of which {b}.31 MiB is free.",
    "rccl": "torch.OutOfMemoryError: HIP out of memory. Tried to allocate {a}.00 GiB. GPU {l} has a total capacity of "
    "127.53 GiB of which {b}.00 MiB is free.",
    "cncl": "torch.OutOfMemoryError: MLU out of memory. Tried to allocate {a}.00 GiB. MLU {l} has {b}.20 MiB free.",
    "oneccl": "torch.OutOfMemoryError: XPU out of memory. Tried to allocate {a}.00 GiB. GPU {l} has {b}.50 MiB free.",
    "tpu": "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 3{a}.21G of "
    "31.25G hbm. Exceeded hbm capacity by {b}.02M.",
    "ucx": "MémoireÉpuisée: allocation de {a} Gio refusée par l'accélérateur {l}, {b} Mio libres",
}


@FOUND.course()
def batch_does_not_fit(c: Case) -> None:
    start_up(c)
    c.train(2, 5)
    c.mark()
    a, b, rank = 2 + c.dialect % 7, 100 + c.dialect, c.vr
    alike(c, (_DEVICE[c.voice.stack].format(a=a, b=b, l=rank % c.per),), "backward")
    c.blame("user/cuda_oom", "crash", "training")


@FOUND.course(TORCH)
def widths_do_not_meet(c: Case) -> None:
    start_up(c)
    what = f"RuntimeError: mat1 and mat2 shapes cannot be multiplied ({c.dialect + 7}x4096 and 5120x4096)"
    alike(c, (what,), "step")
    c.blame("user/shape_mismatch", "crash launch_failure", "training model_build")


@FOUND.course()
def plan_contradicts_itself(c: Case) -> None:
    c.voice.launched(c)
    c.wait(3)
    what = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Plan",
        f"  Value error, pipeline depth 6 times tensor width 4 is not a divisor of {c.world} devices",
    )
    alike(c, what, "config")
    c.blame("user/bad_config", "launch_failure", "launch model_build rendezvous", also="user/bad_argument")


@FOUND.course(LINUX)
def flag_of_an_older_release(c: Case) -> None:
    c.voice.launched(c)
    c.wait(3)
    for r in c.some(c.alive(), 6, 30):
        dt = c.rng.random()
        c.raw(r, "usage: train [-h] [--plan PLAN] [--feed FEED] [--resume STEP]", CONTEXT, "", dt)
        c.raw(r, f"train: error: unrecognized arguments: --fused-rope={c.dialect % 2}", ROOT, "usage", dt + 0.01)
    end(c, 0, 2)
    c.blame("user/bad_argument", "launch_failure", "launch", also="user/bad_config")


@FOUND.course(TORCH)
def wheel_left_out(c: Case) -> None:
    c.voice.launched(c)
    c.wait(3)
    alike(c, ("ModuleNotFoundError: No module named 'ring_flash_attn'",), "config")
    c.blame("user/import_error", "launch_failure", "launch model_build")


@FOUND.course()
def folder_of_tokens_moved(c: Case) -> None:
    start_up(c)
    what = f"FileNotFoundError: [Errno 2] No such file or directory: '/corpora/v{c.dialect % 9}/train/manifest.parquet'"
    alike(c, (what,), "data")
    c.blame("user/dataset_missing", "launch_failure crash", "model_build launch training")


@FOUND.course()
def not_a_number_any_more(c: Case) -> None:
    run(c)
    for _ in range(3):
        c.gnorm *= 14
        c.bump += 1.6
        c.train(2, 4)
        c.log(0, f"gradient norm {c.gnorm:.1f} is far above its mean, clipped", "W", ROOT, "norm")
    c.mark()
    c.wait(c.pace)
    c.log(0, f"loss is nan at {c.n + 1}, grad norm is nan", "E", ROOT, "nan")
    what = "FloatingPointError: loss is not finite on any rank, stopping"
    c.trace(0, (what,), SECOND, "nonfinite", "step", 0.3)
    end(c, 0)
    c.blame("user/nan_divergence", "crash", "training")


@FOUND.course()
def sample_breaks_a_promise(c: Case) -> None:
    run(c)
    c.mark()
    what = (
        f"AssertionError: document {c.pids[0]} of shard {c.n % 997}: token id 151{c.dialect:03d} >= vocab size 128256"
    )
    c.trace(c.vr, (what,), ROOT, "assert", "data")
    peers.fall(c, 1)
    c.blame("user/bad_data_assert", "crash", "training", also="user/user_code_exception")


@FOUND.course()
def judge_has_no_such_column(c: Case) -> None:
    run(c)
    c.mark()
    c.voice.evaluate(c, True)
    c.wait(20, 60)
    alike(c, ("KeyError: 'rouge_lsum_by_length'",), "eval")
    c.blame("user/user_code_exception", "crash", "evaluation")


@FOUND.course(LINUX)
def tokenizer_falls_natively(c: Case) -> None:
    run(c)
    c.mark()
    pid = c.pids[c.vr]
    c.raw(c.vr, "Fatal Python error: Segmentation fault", ROOT, "segv")
    c.raw(c.vr, '  File "/opt/pack/fasttok/binding.py", line 61 in encode_batch', CONTEXT, "", 0.01)
    c.kern(
        c.v,
        f"python3[{pid}]: segfault at 10 ip 00007f11 sp 00007ffe error 4 in _fasttok.cpython-312.so[7f11000+8a000]",
        ROOT,
        "kseg",
        0.05,
    )
    peers.fall(c, -11)
    c.blame("user/native_crash", "crash", "training", [c.v])


@FOUND.course(LINUX)
def cache_without_a_bound(c: Case) -> None:
    """The program's own table of memory grows on every machine until the kernel of one ends it."""
    run(c)
    for k in range(7):
        c.train(4, 9)
        for r in c.firsts():
            c.log(
                r,
                f"rss of this process {120 + 230 * k + r % 9} GiB, sample cache {110 + 230 * k} GiB",
                "W",
                ROOT,
                "rss",
            )
    c.mark()
    pid = c.pids[c.vr]
    killed = f"Out of memory: Killed process {pid} (python3) total-vm:1990{pid}kB, anon-rss:1610{pid}kB"
    kernel(c, (killed,))
    peers.fall(c, -9)
    quiet(c)
    c.blame("user/host_memory_leak", "crash", "training", [c.v], also="hardware/host_oom")
