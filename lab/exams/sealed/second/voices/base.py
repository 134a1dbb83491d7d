"""What the voices of this set share: names of runs and people, kernels and services, and frames of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lab.exams.sealed.common import voice
from lab.exams.sealed.common.voice import Frames, Put
from lab.exams.sealed.second.noise import CHATTER

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

__all__ = ["Frames", "Put", "Voice", "torch_frames"]


class Voice(voice.Voice):
    """A voice of this set."""

    runs: ClassVar = (
        *("kestrel-8b", "moraine", "okapi-3x7b", "tarn-70b", "quoll", "basalt-moe", "wren-1b5", "saiga-32b", "umbra"),
    )
    users: ClassVar = (
        *("jlindqv", "s.okafor", "weizhang", "mlops-ci", "pnovak", "e.moreau", "dkim2", "u30177", "hana.sato"),
    )

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

    def service(self, c: Case, node: int, who: str, text: str, dt: float) -> Put:
        """File and line of a service."""
        t, _ = c.stamp(node, dt)
        return f"syslog/{c.nodes[node]}.messages", f"{t.month} {t.day:2d} {t.time} {c.nodes[node]} {who}: {text}"

    def idle(self) -> tuple[str, ...]:
        """What means nothing, for everybody, for a library and for a program."""
        return (*CHATTER["any"], *CHATTER[self.stack], *self.quirks)


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
