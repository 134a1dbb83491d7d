"""Small made-up jobs for tests of the log engine: any framework's progress lines, one file a node, faults put in by
hand."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.files.parsing import parse
from diagnosis.history import History
from diagnosis.learning import learn
from diagnosis.model import JobHints, Parsed, ParseHints, ReadRange
from diagnosis.pipeline import diagnose

T0 = 1_760_000_000.0

_MEGATRON = (
    " iteration {n:8d}/   90000 | consumed samples: {c:12d} | elapsed time per iteration (ms): {ms:.1f} | "
    "lm loss: 2.31E+00 | grad norm: 0.4 | number of skipped iterations:   0 |"
)
_MLLOG = (
    ':::MLLOG {{"namespace": "", "event_type": "POINT_IN_TIME", "key": "tracked_stats", '
    '"value": {{"train_loss": 2.31}}, "metadata": {{"file": "train.py", "lineno": 80, "step": {n}}}}}'
)
#: One progress line of iteration ``n`` that took ``s`` seconds (``ms`` milliseconds; ``c`` samples so far).
PROGRESS: dict[str, str] = {
    "megatron": _MEGATRON,
    "nemo": "Training epoch 0, iteration {n}/89999 | lr: 0.0003 | global_step: {n} | train_step_timing in s: {s:.3f}",
    "deepspeed": "[INFO] [logging.py:96:log_dist] [Rank 0] step={n}, skipped=0, lr=[0.0003], mom=[[0.9, 0.95]]",
    "torchtitan": "[titan] root - INFO - step: {n:2d}  loss:  2.3101  memory: 41.20GiB(51.5%)  tps: 3,211",
    "hf": " {n}/90000 [01:10<2:10:00,  {s:.2f}s/it, loss=2.31]",
    "lightning": "Epoch 0: | {n}/90000 [00:59<1:59:00, v_num=0, train_loss=2.310]",
    "mlperf": _MLLOG,
    "mindspeed": _MEGATRON.replace("lm loss", "actual seqlen: 4096 | lm loss"),
    "custom": "worker: finished batch {n} in {s:.2f} s, objective 2.31",
}


@dataclass
class Job:
    """A job of ``nodes`` nodes with ``gpus`` ranks each that prints ``iterations`` iterations from ``start`` on."""

    framework: str = "megatron"
    nodes: int = 8
    gpus: int = 2
    iterations: int = 30
    start: int = 100
    step_s: float = 10.0
    slow_from: int | None = None
    slow_ratio: float = 1.8
    is_stamped: bool = True
    skew_s: dict[int, float] = field(default_factory=dict)
    extra: list[tuple[float, int | None, str]] = field(default_factory=list)
    cut: dict[int, float] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()

    def name(self, node: int) -> str:
        return f"gpu-{node:04d}"

    @property
    def begins(self) -> float:
        """When the first iteration starts, seconds after launch."""
        return 60.0

    def at(self, iteration: int) -> float:
        """When ``iteration`` is complete, seconds after launch."""
        slow = 0 if self.slow_from is None else max(0, iteration - self.slow_from + 1)
        return self.begins + (iteration - self.start) * self.step_s + slow * self.step_s * (self.slow_ratio - 1)

    @property
    def last(self) -> int:
        return self.start + self.iterations

    @property
    def ends(self) -> float:
        """When the last iteration is complete."""
        return self.at(self.last)

    def say(self, at: float, node: int | None, text: str) -> Job:
        """Put a line in; ``node`` None is the launcher."""
        self.extra.append((at, node, text))
        return self

    def all_say(self, at: float, text: str, but: tuple[int, ...] = ()) -> Job:
        """Every node but some prints ``text`` (``{node}`` and ``{rank}`` are filled in) with a little jitter."""
        for node in range(self.nodes):
            if node not in but:
                self.say(at + 0.05 * node, node, text.format(node=self.name(node), rank=node * self.gpus))
        return self

    def completes(self) -> Job:
        """Every node reports that training is completed."""
        return self.all_say(self.ends + 5, "[rank{rank}]: Training completed")

    def torn_down(self, at: float, but: tuple[int, ...] = ()) -> Job:
        """Launchers end their workers."""
        head = (
            "W1010 10:10:10.000000 4242 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4243 "
            "closing signal SIGTERM"
        )
        return self.all_say(at, head, but)

    def timed_out(self, at: float, but: tuple[int, ...] = ()) -> Job:
        """Every rank's watchdog reports the same time-out."""
        text = (
            "[rank{rank}]:[E1010 10:10:10.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
            "collective operation timeout: "
            "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for "
            "600012 milliseconds before timing out."
        )
        return self.all_say(at, text, but)

    def files(self) -> dict[str, bytes]:
        """Path to bytes."""
        lines: dict[str, list[tuple[float, str]]] = {}
        for node in range(self.nodes):
            if node in self.absent:
                continue
            mine = lines.setdefault(f"logs/{self.name(node)}.log", [])
            for gpu in range(self.gpus):
                rank = node * self.gpus + gpu
                mine.append(
                    (
                        1 + 0.1 * gpu,
                        f"[rank{rank}]: initializing torch distributed on {self.name(node)} local_rank {gpu}",
                    )
                )
                mine.append((8 + 0.1 * gpu, f"[rank{rank}]: number of parameters: 7000000000"))
                mine.append((20 + 0.1 * gpu, f"[rank{rank}]: loading checkpoint from /ckpt/latest"))
                mine.append((40 + 0.1 * gpu, f"[rank{rank}]: successfully loaded checkpoint at iteration {self.start}"))
            for k in range(int(self.ends // 30)):
                mine.append((30.0 * k + 3, f"gpu-mon: gpu=0 temp={50 + k % 9}C power=600W util=100%"))
            if node == 0:
                for n in range(self.start + 1, self.last + 1):
                    slow = self.slow_from is not None and n >= self.slow_from
                    mine.append((self.at(n), self._progress(n, self.step_s * (self.slow_ratio if slow else 1.0))))
        for at, where, text in self.extra:
            if where not in self.absent:
                lines.setdefault("launcher.log" if where is None else f"logs/{self.name(where)}.log", []).append(
                    (at, text)
                )
        out = {}
        for path, rows in lines.items():
            index = int(path[-8:-4]) if path.startswith("logs/") else -1
            kept = sorted((r for r in rows if index not in self.cut or r[0] <= self.cut[index]), key=lambda r: r[0])
            out[path] = "".join(
                self._stamp(at + self.skew_s.get(index, 0.0)) + text + "\n" for at, text in kept
            ).encode()
        return out

    def _progress(self, n: int, s: float) -> str:
        return PROGRESS[self.framework].format(n=n, s=s, ms=s * 1e3, c=n * 64)

    def _stamp(self, at: float) -> str:
        return datetime.fromtimestamp(T0 + at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ ") if self.is_stamped else ""

    def hints(self) -> JobHints:
        return JobHints(nodes=tuple(self.name(n) for n in range(self.nodes)), family="made-up")


def read_files(files: dict[str, bytes], work: Path) -> tuple[list[Parsed], ReadRange]:
    """Parse every file; returns the artifacts and a reader."""
    parsed = [
        parse(io.BytesIO(data), path, ParseHints(), work / str(i))
        for i, (path, data) in enumerate(sorted(files.items()))
    ]

    def read(path: str, offset: int, length: int) -> bytes:
        return files[path][offset : offset + length]

    return parsed, read


def healthy_history(work: Path, framework: str = "megatron", jobs: int = 3) -> History:
    """Healthy runs of the same kind."""
    learnt = []
    for number in range(jobs):
        job = Job(framework=framework, iterations=20 + number).completes()
        parsed, _ = read_files(job.files(), work / f"healthy-{number}")
        learnt.append(learn(parsed, job_id=f"healthy-{number}", family="made-up", framework=framework))
    return History(tuple(learnt))


def told(job: Job, work: Path, history: History | None = None, **options: Any) -> dict[str, Any]:
    """The whole report of a made-up job."""
    parsed, read = read_files(job.files(), work / "job")
    return report.to_json(
        diagnose(parsed, job=options.pop("hints", job.hints()), history=history, read=read, **options)
    )


def accused(report_: dict[str, Any]) -> list[str]:
    """Accused nodes of a report's logs."""
    return [n["node"] for n in report_["logs"]["nodes"] if n["suspect"]]
