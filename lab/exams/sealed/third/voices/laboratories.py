"""Voices of large laboratories: Pax on TPU slices, ROCm under Flux, and Intel GPUs under PBS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lab.exams.sealed.common.voice import Put
from lab.exams.sealed.third.schedulers import Told
from lab.exams.sealed.third.voices.base import Spoken, python_frames

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

_SEVERITY = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}


class Pax(Spoken):
    """Paxml on slices of TPUs: lines of absl, half of the families through Cloud Logging."""

    name = "paxml"
    stack = "tpu"
    vendor = "google"
    sched = Told("qr", "gcloud-{job}.txt", "{u.iso}.{ms}Z ")
    per = (4,)
    names = ("t1v-n-{hex}-w-{i}", "pax-{hex}-{i}")
    levels = ("D", "I", "W", "E")
    path = "workers/{host}.log"
    heads = ("{level}{t.mmdd} {t.time}.{us} {tid} pax_{mod}.py:{no}] {text}",)
    frames = python_frames("/app/paxml/main.py", "/app/paxml/programs", "_train_step")
    quirks = ("I [PAX STATUS]: Elapsed time for <prefetch>: 0.0{a} seconds", "W seqio: shard {b} has few examples")
    booted = (
        ("*", "I", "[PAX STATUS]: process {node} on {host} ({ip}), {per} local devices of {world}"),
        ("0", "I", "[PAX STATUS]: Checkpoint step restored: {n}"),
        ("0", "I", "compiled train_step in {d}.1s"),
    )
    stepped = ("[PAX STATUS]: step_i: {n}, training loss: {loss:.5f}", "seconds of step {n}: {took:.3f}")
    saving = ("Saving a ckpt at final: False, step: {n}", "Finished saving ckpt for step: {n}")
    evaluating = ("[PAX STATUS]: Running eval programs", "eval_test_lm at step {n}: {loss:.4f}")
    ended = "[PAX STATUS]: Training loop completed (step ({n}) greater than num_train_step)"

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        told = self.fields(c, rank, dt)
        if c.dialect % 2:
            return self.path.format(**told), text
        labels = {"instance_id": str(7_000_000 + told["node"]), "hostname": told["host"]}
        row = {"severity": _SEVERITY.get(text[:1], "DEFAULT"), "timestamp": f"{told['u'].iso}.{told['ns']}Z"}
        return "cloud-logging/export.jsonl", json.dumps({**row, "labels": labels, "textPayload": text})


class Tuolumne(Spoken):
    """A trainer on MI300A under Flux: all output in one file, the task before each line."""

    name = "flux_rocm"
    stack = "rccl"
    vendor = "amd"
    sched = Told("flux", "flux-eventlog.{job}", "{epoch} ", "f{x}")
    per = (4,)
    names = ("tuo{k}", "rz{k:04d}")
    path = "flux-{job}.out"
    line = "{rank}: {text}"
    heads = ("{t.time} {host} {level:>7} {mod} | {text}", "[{level[0]}] {t.iso} {mod}:{no} {text}")
    frames = python_frames("/usr/WS1/lm/train.py", "/usr/WS1/lm/pylm", "micro_loop", "/usr/WS1/venv/site-packages")
    quirks = ("I apu unified memory: {a} GiB host share", "W aiter: no tuned gemm for shape {b}x{b}, default is used")
    booted = (
        ("*", "I", "task up on {host} ({ip}), gfx942, {per} APUs, world {world}"),
        ("0", "I", "aws-ofi-rccl plugin selected provider cxi"),
        ("0", "I", "beginning at iter {n}"),
    )
    stepped = ("iter {n} | nll {loss:.4f} | gn {grad:.3f} | {took:.3f} s | {tok:.3e} tok/s",)
    saving = ("dump {n} -> /p/lustre5/{run}: begin", "dump {n} -> /p/lustre5/{run}: end")
    evaluating = ("heldout begin", "heldout nll {loss:.4f} at iter {n}")
    ended = "done at iter {n}, goodbye"


class Aurora(Spoken):
    """PyTorch on Intel GPUs, started by PALS under PBS, with colons and brackets in its headers."""

    name = "pbs_xpu"
    stack = "oneccl"
    vendor = "intel"
    sched = Told("pbs", "pbs_{job}.trace", "{t.date} {t.time} L ", "{n}.pbs-0001")
    per = (12,)
    most = 24
    names = ("x4{a:03d}c{b}s1b0n0", "x3{k:04d}c0s2b0n0")
    levels = ("D", "I", "W", "E")
    path = "pals/{job}.e"
    line = "{host} {rank}: {text}"
    heads = ("[{t.both},{ms}][{level}][xtrain/{mod}:{no}] {text}", "[{t.both}][{level}][{mod}] {text}")
    frames = python_frames("/flare/proj/xtrain/run.py", "/flare/proj/xtrain/src", "fsdp_step")
    quirks = ("W IPEX: op fallback to default for case {b}", "I frameworks module 2025.{a} loaded")
    booted = (
        ("*", "I", "hello from {host} ({ip}) rank {rank}/{world}, xpu:{local}, backend xccl"),
        ("0", "I", "device mesh built, compute dtype bfloat16, seed {d}"),
        ("0", "I", "resume at iter={n}"),
    )
    stepped = ("iter={n} loss={loss:.6f} gradn={grad:.4f} dt={took:.4f} tps={tok:.1f}",)
    saving = ("dcp save iter={n} to /flare/proj/{run}", "dcp save iter={n} complete")
    evaluating = ("eval loop entered", "eval iter={n} loss={loss:.4f}")
    ended = "train loop exit at iter={n}"


VOICES = (Pax(), Tuolumne(), Aurora())
