"""What every voice has: where its lines go, how its kernels and schedulers print, and its progress messages."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, ClassVar

from exams.sealed.second.noise import CHATTER
from exams.sealed.second.schedulers import Scheduler

if TYPE_CHECKING:
    from exams.sealed.second.case import Case

type Put = tuple[str, str]
type Frames = dict[str, list[str]]


class Voice:
    """One program on one kind of cluster. ``stack``: its communication library; ``vendor``: its devices' maker."""

    name: ClassVar[str]
    stack: ClassVar[str] = "nccl"
    vendor: ClassVar[str] = "nvidia"
    sched: ClassVar[Scheduler]
    per: ClassVar[tuple[int, ...]] = (8,)
    every: ClassVar[tuple[int, ...]] = (1, 1, 2, 5, 10)
    pace: ClassVar[tuple[float, float]] = (1.5, 14.0)
    most: ClassVar[int] = 64
    leaf: ClassVar[str] = "leaf"
    names: ClassVar[tuple[str, ...]] = ("gn{k:04d}",)
    levels: ClassVar[tuple[str, str, str, str]] = ("DEBUG", "INFO", "WARNING", "ERROR")
    frames: ClassVar[Frames]
    quirks: ClassVar[tuple[str, ...]] = ()

    def job_id(self, rng: random.Random) -> str:
        """What the scheduler calls a job."""
        return self.sched.job_id(rng)

    def hosts(self, c: Case, count: int) -> list[str]:
        """Names of machines."""
        scheme = c.kin.choice(self.names)
        letters = f"{c.kin.getrandbits(40):010x}"
        low = c.rng.randrange(1, 300)
        picked = c.rng.sample(range(low, low + count * 2), count)
        return [
            scheme.format(k=k, a=k // 16, b=k % 16, hex=letters[:8], run=c.run, job=c.job, i=i)
            for i, k in enumerate(sorted(picked))
        ]

    def level(self, word: str) -> str:
        """A level as this logger writes it."""
        return self.levels["DIWE".index(word)]

    # ---- where lines go

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        """File of a rank's line, and the line with what its collector puts before it."""
        return f"logs/{c.job}/{c.host(rank)}.log", text

    def agent(self, c: Case, rank: int, text: str, dt: float) -> Put:
        """The same for a line of the launcher's agent on the machine of a rank."""
        return self.put(c, rank, text, dt)

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        """A message with the logger's header."""
        raise NotImplementedError

    def tag(self, c: Case, rank: int) -> str:
        """What stands before each line of a traceback."""
        return ""

    def kernel(self, c: Case, node: int, text: str, dt: float) -> Put:
        """File and line of a kernel message; one style a family."""
        t, us = c.stamp(node, dt)
        host, up = c.nodes[node], c.boot_at[node] + c.now + dt
        match c.dialect % 5:
            case 0:
                return f"dmesg/{host}.txt", f"[{t.weekday} {t.month} {t.day:2d} {t.time} {t.year}] {text}"
            case 1:
                return f"syslog/{host}.messages", f"{t.month} {t.day:2d} {t.time} {host} kernel: [{up:.6f}] {text}"
            case 2:
                zone = t.zone.replace(":", "")
                return f"journal/{host}.log", f"{t.iso}.{us:06d}{zone} {host} kernel: {text}"
            case 3:
                return f"{host}/kern.log", f"{t.iso}.{us:06d}{t.zone} {host} kernel: [{up:13.6f}] {text}"
            case _:
                return "loghost/kernel-all.log", f"{t.month} {t.day:2d} {t.time} {host} kernel: {text}"

    def control(self, c: Case, text: str, dt: float) -> Put:
        """File and line of the scheduler."""
        return self.sched.put(c, text, dt)

    # ---- what a run says

    def launched(self, c: Case) -> None:
        """The scheduler starts the job."""
        self.sched.launched(c)

    def boot(self, c: Case) -> None:
        """Everything between the launch and the first iteration."""
        raise NotImplementedError

    def step(self, c: Case) -> None:
        """Progress, as it is printed by whoever prints it in this family."""
        for rank in self.speakers(c):
            self.progress(c, rank)

    def speakers(self, c: Case) -> list[int]:
        """The ranks that print progress: mostly the first, now and then the last, or one a machine."""
        match c.dialect % 7:
            case 0 | 1:
                return c.firsts()
            case 2:
                return [c.world - 1]
            case _:
                return [0]

    def progress(self, c: Case, rank: int) -> None:
        """The progress line of one rank."""
        raise NotImplementedError

    def save(self, c: Case, is_begin: bool) -> None:
        """Begin or end of a checkpoint."""
        raise NotImplementedError

    def evaluate(self, c: Case, is_begin: bool) -> None:
        """Begin or end of an evaluation."""
        raise NotImplementedError

    def finish(self, c: Case) -> None:
        """The last lines of the program and of the scheduler."""
        c.log(0, f"Training finished after {c.n} steps, exiting")
        c.wait(3, 9)
        self.sched.closed(c, "done")

    def chatter(self, c: Case) -> None:
        """A line that means nothing."""
        words = (*CHATTER["any"], *CHATTER[self.stack], *self.quirks)
        level, text = c.rng.choice(words).split(" ", 1)
        rank = c.rng.choice(c.firsts() or [0])
        text = text.format(a=c.rng.randrange(2, 99), b=c.rng.randrange(100, 9999), n=c.n, r=rank, host=c.host(rank))
        c.log(rank, text, level, dt=-c.rng.random() * c.took / 3)


def torch_frames(program: str, step: str) -> Frames:
    """Frames of a program on PyTorch: ``program`` is its file, ``step`` the function of an iteration."""
    site = "/opt/venv/lib/python3.11/site-packages"
    loader = f"{site}/torch/utils/data/dataloader.py"
    return {
        "main": [f"{program}|{len(program) * 11}|<module>|main()", f"{program}|{len(program) * 9}|main|trainer.fit()"],
        "step": [
            f"{program}|{200 + len(step)}|{step}|loss = self.model(batch)",
            f"{site}/torch/nn/modules/module.py|1739|_wrapped_call_impl|return self._call_impl(*args, **kwargs)",
        ],
        "reduce": [
            f"{program}|{230 + len(step)}|{step}|self.sync_grads()",
            f"{site}/torch/distributed/c10d_logger.py|81|wrapper|return func(*args, **kwargs)",
            f"{site}/torch/distributed/distributed_c10d.py|2806|all_reduce|work.wait()",
        ],
        "backward": [
            f"{program}|{215 + len(step)}|{step}|loss.backward()",
            f"{site}/torch/_tensor.py|626|backward|torch.autograd.backward(",
            f"{site}/torch/autograd/graph.py|823|_engine_run_backward|return Variable._execution_engine.run_backward(",
        ],
        "data": [
            f"{program}|180|batches|for batch in self.loader:",
            f"{loader}|708|__next__|data = self._next_data()",
            f"{loader}|1480|_next_data|return self._process_data(data)",
        ],
        "save": [
            f"{program}|310|checkpoint|self.saver.write(self.state, path)",
            f"{site}/torch/distributed/checkpoint/filesystem.py|590|write_data|torch.save(tensor, stream)",
        ],
        "load": [
            f"{program}|120|resume|state = self.saver.read(path)",
            f"{site}/torch/serialization.py|1432|load|with _open_zipfile_reader(opened_file) as reader:",
        ],
        "init": [
            f"{program}|66|setup|dist.init_process_group(backend, timeout=timeout)",
            f"{site}/torch/distributed/distributed_c10d.py|1714|init_process_group|store, rank, size = next(found)",
            f"{site}/torch/distributed/rendezvous.py|278|_env_rendezvous_handler|store = _create_c10d_store(",
        ],
        "device": [
            f"{program}|58|setup|torch.cuda.set_device(local_rank)",
            f"{site}/torch/cuda/__init__.py|319|_lazy_init|torch._C._cuda_init()",
        ],
        "eval": [f"{program}|402|evaluate|metrics.update(self.model(batch), labels)"],
        "config": [f"{program}|41|build|cfg.validate()"],
    }
