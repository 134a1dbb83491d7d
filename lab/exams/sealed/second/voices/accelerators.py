"""Voices on other accelerators: TPU with JAX, Ascend, AMD Instinct, and PaddlePaddle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from lab.exams.sealed.second.cloud_schedulers import Jobset, Modelarts, Paddle
from lab.exams.sealed.second.schedulers import Slurm
from lab.exams.sealed.second.voices.base import Frames, Put, Voice, torch_frames
from lab.exams.sealed.second.voices.hopper import nccl_boot

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

_SEVERITY = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR"}


class Axlearn(Voice):
    """JAX on TPU slices of a cloud: every line is an object of the log service."""

    name = "axlearn"
    stack = "jax"
    vendor = "google"
    sched = Jobset()
    per = (4,)
    names = ("{run}-{job}-slice-job-0-{i}-{hex}", "{run}-{job}-tpu-{i}")
    frames: ClassVar[Frames] = {
        "main": [
            "/opt/axlearn/common/launch_trainer_main.py|28|main|launch_trainer.run_trainer(trainer_config)",
            "/opt/axlearn/common/launch_trainer.py|161|run_trainer|output = trainer.run(prng_key)",
        ],
        "step": [
            "/opt/axlearn/common/trainer.py|623|run|output = self._run_step(",
            "/opt/venv/lib/python3.10/site-packages/jax/_src/pjit.py|338|cache_miss|outs = "
            "pjit_p.bind(*args, **params)",
        ],
        "data": ["/opt/axlearn/common/input_tf_data.py|411|__next__|return next(self._iter)"],
        "save": ["/opt/axlearn/common/checkpointer.py|744|save|self._manager.wait_until_finished()"],
        "load": ["/opt/axlearn/common/checkpointer.py|880|restore|restored = self._tensorstore.restore(spec)"],
        "init": [
            "/opt/venv/lib/python3.10/site-packages/jax/_src/distributed.py|246|initialize|global_state.initialize("
        ],
        "device": [
            "/opt/venv/lib/python3.10/site-packages/jax/_src/xla_bridge.py|917|backends|raise RuntimeError(err_msg)"
        ],
        "eval": ["/opt/axlearn/common/evaler.py|512|_eval_step|self._metric_calculator.forward(batch)"],
        "config": ["/opt/axlearn/common/config.py|690|instantiate|self.validate()"],
    }
    frames["reduce"] = frames["backward"] = frames["step"]
    quirks = ("W GCS client: transient 429 on list, backing off {a} ms", "I Summary writer flushed {b} events")

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        t, us = c.utc(c.node(rank), dt)
        level = _SEVERITY.get(text[:1], "ERROR") if text[1:5].isdigit() else "ERROR"
        held = {
            "insertId": f"{len(c.lines):012x}",
            "textPayload": text,
            "resource": {"labels": {"pod_name": c.host(rank), "container_name": "tpu"}, "type": "k8s_container"},
            "timestamp": f"{t.iso}.{us:06d}Z",
            "severity": level,
        }
        return f"downloaded-logs-{c.job}.jsonl", json.dumps(held, ensure_ascii=False)

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, us = c.stamp(c.node(rank), dt)
        line = 100 + len(text) % 700
        return f"{level}{t.mmdd} {t.time}.{us:06d} {c.pids[rank]} trainer.py:{line}] process {c.node(rank):3d} {text}"

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            text = f"jax.distributed.initialize: coordinator {c.nodes[0]}:8476, process {c.node(r)} of {len(c.nodes)}"
            c.log(r, f"{text}, host {c.host(r)}", dt=1)
        c.wait(10, 40)
        c.log(0, f"Devices: {c.world} TPU v5p, mesh (data={len(c.nodes)}, fsdp={c.per})")
        c.log(0, f"step {c.n:8d}] Compiling train step, took {c.rng.uniform(40, 190):.1f} s")

    def progress(self, c: Case, rank: int) -> None:
        told = f"loss={c.loss():.5f} aux={{'learner/gradient_norm': {c.gnorm * c.rng.uniform(0.2, 0.5):.4f}}}"
        c.log(rank, f"step {c.n:8d}] {told} average step time={c.took:.3f}s")

    def save(self, c: Case, is_begin: bool) -> None:
        where = f"gs://axl-{c.user[0]}-ckpt/{c.run}/checkpoints/step_{c.n:08d}"
        c.log(
            0,
            f"step {c.n:8d}] Saving checkpoint {where}"
            if is_begin
            else f"Serialization of {where} completed, index written",
        )

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(
            0, "Evaler validation: Starting" if is_begin else f"Evaler validation: step {c.n} loss={c.loss():.4f}, done"
        )


class Xtuner(Voice):
    """Tuning on Ascend in a managed cloud: the job's output and the drivers' logs of each machine."""

    name = "xtuner_npu"
    stack = "hccl"
    vendor = "ascend"
    sched = Modelarts()
    names = ("{job}-worker-{i}", "bms-ascend-{k:04d}")
    frames = torch_frames("/home/ma-user/xtuner/engine/runner.py", "run_iter")
    quirks = ("W mmengine: the default registry scope is not set, {a} modules use it",)

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        return f"{c.job}/{c.host(rank)}.log", text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, _ = c.stamp(c.node(rank), dt)
        return f"{t.date.replace('-', '/')} {t.time} - mmengine - {self.level(level)} - [rank {rank}] {text}"

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.log(
                r,
                f"host {c.host(r)} ({c.ips[c.node(r)]}), device 0-{c.per - 1} Ascend910B, CANN "
                "8.0.RC3, driver 24.1.rc3",
                dt=1,
            )
        c.wait(5, 15)
        c.log(0, f"backend hccl, world size {c.world}, server list of {len(c.nodes)} machines")
        if c.n:
            c.log(0, f"Load checkpoint from /cache/work_dirs/{c.run}/iter_{c.n}.pth")

    def progress(self, c: Case, rank: int) -> None:
        left = int((c.total - c.n) * c.took)
        c.log(
            rank,
            f"Iter(train) [{c.n:6d}/{c.total}]  lr: 2.0000e-05  eta: "
            f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}  "
            f"time: {c.took:.4f}  data_time: {c.rng.uniform(0.008, 0.02):.4f}  memory: 43{c.n % 900:03d}  "
            f"loss: {c.loss():.4f}  grad_norm: {c.gnorm * c.rng.uniform(0.4, 0.9):.4f}",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        where = f"/cache/work_dirs/{c.run}/iter_{c.n}.pth"
        c.log(0, f"Saving checkpoint at {c.n} iterations" if is_begin else f"checkpoint {where} synchronised to OBS")

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(
            0,
            f"before_val in EvaluateChatHook, iter {c.n}."
            if is_begin
            else "Sample output: 上海是一座美丽的城市。 after_val done",
        )


class Primus(Voice):
    """AMD's trainer under Slurm in containers."""

    name = "primus"
    stack = "rccl"
    vendor = "amd"
    sched = Slurm()
    names = ("mi300x-{a}{b:02d}", "amd-useocpm2m-{k:03d}", "tw{k:03d}")
    frames = torch_frames("/workspace/Primus/primus/modules/trainer/trainer.py", "run_step")
    quirks = ("D hipMemcpyAsync fallback path used {a} times", "W aiter: kernel for head dim {a} not tuned")

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        return f"output/{c.run}/logs/node_{c.host(rank)}.log", text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, _ = c.stamp(c.node(rank), dt)
        word = f"{self.level(level):5}"
        where = f"{'trainer.py':->16}:{300 + len(text) % 900}"
        return (
            f"[{t.date.replace('-', '')} "
            f"{t.time}][node-{c.node(rank)}][rank-{rank}/{c.world}][{word}] [{where}] : {text}"
        )

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.log(r, f"hostname: {c.host(r)}, ip: {c.ips[c.node(r)]}, gfx942 x {c.per}, ROCm 6.4.1", dt=0.6)
        nccl_boot(c, "NET/IB : Using [0]bnxt_re0:1/RoCE [1]bnxt_re1:1/RoCE [RO]; OOB enp49s0")
        c.log(0, f"model built, {c.dialect % 60 + 7}.03 B parameters, start from step {c.n}")

    def progress(self, c: Case, rank: int) -> None:
        c.log(
            rank,
            f"step {c.n} of {c.total} | tokens/s/GPU: {2100 * c.pace / c.took:.1f} | "
            f"TFLOP/s/GPU: {390 * c.pace / c.took:.1f}"
            f" | elapsed ms: {c.took * 1000:.1f} | lm loss: {c.loss():.6E} | grad norm: {c.gnorm:.3f} | "
            f"skipped: 0 | nan: 0 | hip mem usage: 0.{70 + c.dialect % 20}",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        c.log(
            0,
            f"saving distributed checkpoint at step {c.n}"
            if is_begin
            else f"checkpoint of step {c.n} committed (torch_dist)",
        )

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(0, "evaluating on the validation split" if is_begin else f"validation loss at step {c.n}: {c.loss():.5E}")


class Fleetx(Voice):
    """PaddlePaddle with its own launcher: a file for each worker."""

    name = "fleetx"
    stack = "paddle"
    sched = Paddle()
    most = 12
    names = ("yq{a:02d}-sys-rpm{k:04d}", "tjzj-inf-sci-k8s-{k:04d}")
    frames: ClassVar[Frames] = {
        "main": ["/opt/fleetx/run_pretrain.py|88|<module>|engine.fit(epoch=config.Engine.num_train_epochs)"],
        "step": ["/opt/fleetx/core/engine/eager_engine.py|412|_fit_impl|loss = self._model_forward_backward(batch)"],
        "data": [
            "/usr/lib/python3.10/site-packages/paddle/io/reader.py|212|__next__|data = "
            "self._reader.read_next_var_list()"
        ],
        "save": ["/usr/lib/python3.10/site-packages/paddle/framework/io.py|1023|save|f.write(chunk)"],
        "load": ["/usr/lib/python3.10/site-packages/paddle/framework/io.py|1270|load|load_result = _legacy_load(path)"],
        "init": [
            "/usr/lib/python3.10/site-packages/paddle/distributed/parallel.py|1098|init_parallel_env|store "
            "= core.TCPStore("
        ],
        "device": [
            "/usr/lib/python3.10/site-packages/paddle/device/__init__.py|281|set_device|place = _convert(device)"
        ],
        "eval": ["/opt/fleetx/core/engine/eager_engine.py|655|_evaluate_one_epoch|loss = self._evaluate_impl(batch)"],
        "config": ["/opt/fleetx/utils/config.py|131|process_dist_config|raise ValueError("],
    }
    frames["reduce"] = frames["backward"] = frames["step"]
    quirks = ("W The AsyncSaver queue holds {a} items", "D reader cost hist p99 {a} ms")

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        return f"{c.host(rank)}/workerlog.{rank % c.per}", text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, us = c.stamp(c.node(rank), dt)
        return f"[{t.both},{us // 1000:03d}] [{self.level(level):>8}] - {text}"

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.raw(
                r,
                f"I{c.stamp(c.node(r))[0].mmdd} init.cc:98] endpoint {c.ips[c.node(r)]}:6170 of "
                f"{c.host(r)}, trainer {r}/{c.world}",
                dt=1,
            )
        for r in c.alive():
            c.log(r, f"rank {r}: hybrid group ready, dp {len(c.nodes)}, mp {c.per}", dt=2 + r / 500)
        c.wait(5, 12)

    def progress(self, c: Case, rank: int) -> None:
        c.log(
            rank,
            f"[train] global step {c.n}, loss: {c.loss():.9f}, avg_batch_cost: {c.took:.5f} sec, "
            f"speed: {1 / c.took:.2f} "
            f"step/s, ips_total: {c.world * 4096 / c.took:.0f} tokens/s, learning rate: 1.20000e-04",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        c.log(0, f"Save model to output/epoch_0_step_{c.n} begins" if is_begin else f"Saved output/epoch_0_step_{c.n}")

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(
            0, "[eval] start" if is_begin else f"[eval] epoch: 0, batch: 40, loss: {c.loss():.6f}, done at step {c.n}"
        )


VOICES = (Axlearn(), Xtuner(), Primus(), Fleetx())
