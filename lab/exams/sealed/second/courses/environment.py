"""Courses in which files, libraries, drivers or the command line of a program are wrong from the start."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, Case
from lab.exams.sealed.second import peers
from lab.exams.sealed.second.courses.base import ALL, Found, quiet, ranks_of, start_up, stop

FOUND = Found()


@FOUND.course(ALL)
def index_file_missing(c: Case) -> None:
    start_up(c)
    for r in c.some(c.alive(), 6, 48):
        c.trace(
            r,
            (
                "FileNotFoundError: [Errno 2] No such file or directory: "
                f"'/data/{c.run}/tokenized_v{c.dialect % 5}/train_text.idx'",
            ),
            ROOT,
            "enoent",
            "data",
            c.rng.uniform(0, 3),
        )
    stop(c)
    c.blame("user/dataset_missing", "launch_failure crash", "model_build launch training")


@FOUND.course(("lingua", "yunke", "primus", "trl_lsf", "tessera", "smp_hyperpod"))
def mount_absent_on_one(c: Case) -> None:
    """One machine lacks the mount that the tokenizer is read from."""
    start_up(c)
    if c.rng.random() < 0.5:
        c.unit(
            c.v,
            "systemd[1]",
            "mnt-datasets.mount: Mount process exited, code=exited, status=32/n/a",
            ROOT,
            "mount",
            -80,
        )
    for r in ranks_of(c, c.v):
        c.trace(
            r,
            ("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/datasets/tok/tokenizer.model'",),
            ROOT,
            "enoent",
            "data",
            c.rng.random(),
        )
    c.wait(1, 4)
    c.blame(
        "user/dataset_missing",
        "launch_failure crash",
        "model_build launch training",
        [c.v],
        also="platform/storage_outage",
    )
    peers.fall(c)


@FOUND.course(("lingua", "openrlhf", "smp_hyperpod", "clipper", "primus", "bmtrain", "tessera", "yunke"))
def symbol_undefined(c: Case) -> None:
    """A compiled extension does not fit the installed library."""
    c.voice.launched(c)
    quiet(c, 0.2)
    lib = "/opt/venv/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"
    text = (
        f"ImportError: {lib}: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringE",
        f"ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by {lib})",
        "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
    )[c.variant % 3]
    for r in c.alive():
        if c.rng.random() < 0.8:
            c.trace(
                r,
                (text,),
                ROOT,
                "symbol",
                "config",
                c.rng.uniform(0, 4),
            )
    stop(c)
    c.blame("user/import_error", "launch_failure", "launch model_build", also="user/bad_config")


@FOUND.course(("lingua", "yunke", "clipper", "tessera", "trl_lsf", "smp_hyperpod"))
def older_driver(c: Case) -> None:
    """One machine was not upgraded: its driver is older than the image's toolkit needs."""
    c.voice.launched(c)
    c.kern(
        c.v, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  535.129.03  Release Build", CONTEXT, "", -9000
    )
    for k in range(len(c.nodes)):
        if k != c.v:
            c.kern(k, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build", dt=-8000 + k)
            c.log(
                k * c.per,
                f"rank {k * c.per} on {c.nodes[k]} ({c.ips[k]}): driver 570.86.15, waiting",
                dt=c.rng.random(),
            )
    for r in ranks_of(c, c.v):
        c.trace(
            r,
            (
                "RuntimeError: The NVIDIA driver on your system is too old (found version "
                "12020). Please update your GPU driver",
            ),
            ROOT,
            "driver",
            "device",
            c.rng.random(),
        )
    c.wait(1, 4)
    c.died(c.vr, 1)
    peers.ended(c, [r for r in c.firsts() if c.node(r) != c.v])
    c.closed("fail")
    c.blame("user/bad_config", "launch_failure", "model_build launch rendezvous", [c.v], also="platform/device_alloc")


@FOUND.course(ALL)
def sizes_do_not_divide(c: Case) -> None:
    start_up(c)
    heads = c.dialect % 30 + 11
    text = (
        f"AssertionError: num_attention_heads ({heads}) must be divisible by tensor parallel size ({c.per})",
        f"ValueError: global_batch_size={c.world * 4 + 3} is not a multiple of micro_batch_size=4 x "
        f"data_parallel={c.world}",
        f"ValueError: {heads} layers cannot be split into 4 equal pipeline stages; set layers_per_stage",
    )[c.variant % 3]
    for r in c.alive():
        if c.rng.random() < 0.6:
            c.trace(
                r,
                (text,),
                ROOT,
                "divide",
                "config",
                c.rng.uniform(0, 2),
            )
    stop(c)
    c.blame("user/bad_config", "launch_failure", "model_build launch", also="user/bad_argument")


@FOUND.course(ALL)
def option_unknown(c: Case) -> None:
    c.voice.launched(c)
    option = c.rng.choice(("--recompute-granularty=full", "--lr-warmup-itres 2000", "--use-flash-atten-v3"))
    name = option.lstrip("-").partition("=")[0].partition(" ")[0]
    text = (
        f"train.py: error: unrecognized arguments: {option}",
        f"Could not override '{name.replace('-', '_')}'. Key is not in struct",
        f"FATAL Flags parsing error: Unknown command line flag '{name}'",
    )[c.variant % 3]
    for r in c.alive():
        if c.rng.random() < 0.8:
            if c.variant % 3 == 0:
                usage = "usage: train.py [-h] [--model MODEL] [--lr-warmup-iters N] [--attention {fused,plain}]"
                c.raw(r, usage, CONTEXT, "", 1)
            c.raw(r, text, ROOT, "usage", 1.01)
    quiet(c, 0.2)
    stop(c, code=2)
    c.blame("user/bad_argument", "launch_failure", "launch", also="user/bad_config")
