"""Formats of loggers and training loops: header, progress, stages, and their libraries' messages about peers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

type Head = Callable[[datetime, str, str, dict[str, object]], list[str]]
type Progress = Callable[[int, float, float], str]


@dataclass(frozen=True)
class Voice:
    """One logger and one training loop. ``head`` renders a message, ``progress`` makes one of (n, seconds, loss)."""

    name: str
    head: Head
    progress: Progress
    startup: tuple[tuple[str, str], ...]
    save: tuple[str, str]
    finish: str
    reset: tuple[str, ...]
    timeout: tuple[str, ...]
    vendor: str = "nvidia"
    reporter: int = 0
    is_every_rank: bool = False
    is_held_out: bool = False


_STARTUP = (
    ("launch", "launching worker {rank} of {world} on {node}"),
    ("rendezvous", "rank {rank}: process group initialized, world size {world}"),
    ("model_build", "model built, 13.4B parameters"),
    ("checkpoint_load", "checkpoint restored, resuming from step {n}"),
    ("training", "starting training loop"),
)
_SAVE = ("saving checkpoint at step {n}", "checkpoint for step {n} saved")
_NCCL_RESET = (
    "{node}:{pid}:{pid} [{local}] NCCL WARN NET/Socket : peer {bad} has closed the connection",
    "torch.distributed.DistBackendError: NCCL communicator was aborted on rank {rank}",
)
_NCCL_TIMEOUT = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4{num}, OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, Timeout(ms)=600000) ran for 600088 "
    "milliseconds before timing out.",
)
_HCCL_RESET = ("RuntimeError: HcclAllReduce: the remote rank has closed its connection, error code is 4",)
_HCCL_TIMEOUT = (
    "EI0002: The wait execution of the Notify register times out. Remote rank unknown. [PID: {pid}] taskID 5{num}",
)
_JAX_RESET = (
    "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: connection to a peer task was lost; "
    "the peer may have been preempted or crashed",
)
_JAX_TIMEOUT = (
    "E0000 00:00:00.000000 {pid} rendezvous.cc:36] This thread has been waiting for `all-reduce` "
    "for 600 seconds and may be stuck",
    "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: collective did not complete within 600 s",
)
_GLOO_RESET = ("RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [{badip}]:2{num}44",)
_GLOO_TIMEOUT = (
    "RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:81] "
    "Timed out waiting 1800000ms for recv operation to complete",
)


def _loguru(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} | {level:8} | trainer.loop:fit:212 - {text}"]


def _structlog(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    row = {
        "event": text,
        "level": level.lower(),
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}",
        "rank": who["rank"],
        "host": who["node"],
    }
    return [json.dumps(row)]


def _absl(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"{level[0]}{at:%m%d %H:%M:%S.%f} {who['pid']} train_loop.py:188] {text}"]


def _paddle(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}] [{level:>8}] trainer.py:931 - {text}"]


def _ray(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [
        f"(RayTrainWorker pid={who['pid']}, ip={who['ip']}) "
        f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} {level} worker {who['rank']}: {text}"
    ]


def _spdlog(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"[{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}] [trainer] [{level.lower()}] {text}"]


def _bare(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [text]


def _composer(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [
        f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}: "
        f"rank{who['rank']}[{who['pid']}][MainThread]: {level}: composer.trainer: {text}"
    ]


def _mindspeed(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f" [{at:%Y-%m-%d %H:%M:%S}] {text}"]


def _log4j(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"{at:%y/%m/%d %H:%M:%S} {level} TrainTask: [{who['rank']}] {text}"]


def _zap(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [
        f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}\t{level}\t"
        f'train/run.go:77\t{text}\t{{"rank": {who["rank"]}}}'
    ]


def _logfmt(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f'ts={at:%Y-%m-%dT%H:%M:%S.%f}Z level={level.lower()} rank={who["rank"]} msg="{text}"']


VOICES = (
    Voice(
        "loguru",
        _loguru,
        lambda n, s, x: f"step {n} | loss {x:.4f} | {s:.2f} s/step",
        _STARTUP,
        _SAVE,
        "training finished",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
    ),
    Voice(
        "structlog",
        _structlog,
        lambda n, s, x: f"train_step step={n} loss={x:.4f} step_time={s:.3f}s",
        _STARTUP,
        _SAVE,
        "training completed",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
        is_every_rank=True,
    ),
    Voice(
        "absl",
        _absl,
        lambda n, s, x: f"completed step: {n}, seconds: {s:.3f}, loss: {x:.3f}",
        _STARTUP,
        _SAVE,
        "Training is done.",
        _JAX_RESET,
        _JAX_TIMEOUT,
        vendor="tpu",
        is_every_rank=True,
    ),
    Voice(
        "paddle",
        _paddle,
        lambda n, s, x: (
            f"loss: {x:.6f}, learning_rate: 1e-05, global_step: {n}, interval_runtime: {s:.3f}, ips: 12.1 tokens/s"
        ),
        _STARTUP,
        _SAVE,
        "Training completed.",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
    ),
    Voice(
        "ray",
        _ray,
        lambda n, s, x: f"iteration {n}: loss={x:.4f} time={s:.2f}s",
        _STARTUP,
        _SAVE,
        "training completed",
        _GLOO_RESET,
        _GLOO_TIMEOUT,
    ),
    Voice(
        "lightning",
        _bare,
        lambda n, s, x: (
            f"Epoch 0:  {n % 100:3d}%|####      | {n}/90000 [00:10<9:59:59,  "
            f"{1 / s:.2f}it/s, v_num=3, train_loss={x:.3f}]"
        ),
        _STARTUP,
        _SAVE,
        "`Trainer.fit` stopped: `max_steps=90000` reached.",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
    ),
    Voice(
        "composer",
        _composer,
        lambda n, s, x: f"[batch={n}/90000]: Train loss/train/total: {x:.4f} Train time/iter: {s:.3f}",
        _STARTUP,
        _SAVE,
        "training finished",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
    ),
    Voice(
        "mindspeed",
        _mindspeed,
        lambda n, s, x: (
            f"iteration {n:8d}/   90000 | consumed samples: {n * 256:12d} | "
            f"elapsed time per iteration (ms): {s * 1e3:.1f} | learning rate: 1.0E-05 | lm loss: {x:.6E} |"
        ),
        _STARTUP,
        _SAVE,
        "training done",
        _HCCL_RESET,
        _HCCL_TIMEOUT,
        vendor="ascend",
        reporter=-1,
    ),
    Voice(
        "spdlog",
        _spdlog,
        lambda n, s, x: f"iter={n} loss={x:.4f} dt={s * 1e3:.0f}ms",
        _STARTUP,
        _SAVE,
        "training finished",
        _GLOO_RESET,
        _GLOO_TIMEOUT,
        is_every_rank=True,
    ),
    Voice("quiet", _loguru, lambda n, s, x: "", _STARTUP, _SAVE, "training finished", _NCCL_RESET, _NCCL_TIMEOUT),
    Voice(
        "log4j",
        _log4j,
        lambda n, s, x: f"batch {n} done in {s:.2f} sec, loss {x:.4f}",
        _STARTUP,
        _SAVE,
        "training finished",
        _GLOO_RESET,
        _GLOO_TIMEOUT,
        is_held_out=True,
    ),
    Voice(
        "zap",
        _zap,
        lambda n, s, x: f"step={n} loss={x:.4f} sec={s:.2f}",
        _STARTUP,
        _SAVE,
        "training completed",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
        is_every_rank=True,
        is_held_out=True,
    ),
    Voice(
        "logfmt",
        _logfmt,
        lambda n, s, x: f"update {n} loss {x:.4f} took {s:.2f}s",
        _STARTUP,
        _SAVE,
        "training finished",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
        is_held_out=True,
    ),
)
