"""Voices of companies with code of their own: BMTrain under OpenMPI, a Chinese trainer, and a trainer with hydra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.exams.sealed.second.cloud_schedulers import Volcano, torchrun_died
from lab.exams.sealed.second.schedulers import Mpirun, Slurm
from lab.exams.sealed.second.voices.base import Put, Voice, torch_frames
from lab.exams.sealed.second.voices.hopper import nccl_boot

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case


class Bmtrain(Voice):
    """Started with mpirun and a host file; everything in one file, task numbers before each line."""

    name = "bmtrain"
    stack = "mpi"
    sched = Mpirun()
    most = 24
    per = (4, 8)
    names = ("g{k:03d}.mgmt", "compute-{a}-{b}", "thin{k:04d}")
    levels = ("debug", "info", "warn", "error")
    frames = torch_frames("/home/bm/cpm_live/pretrain.py", "pretrain")
    quirks = ("I zero offload: {a} tensors on host",)

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        kind = (
            "stderr"
            if text.startswith(("Trace", "  File", "    ")) or "ERROR" in text or "rror" in text or "Interrupt" in text
            else "stdout"
        )
        return self.sched.put(c, "", dt)[0], f"[{c.attempt + 1},{rank}]<{kind}>:{text}"

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, _ = c.stamp(c.node(rank), dt)
        return (
            f"{t.time} {self.level(level)} {c.host(rank)}: {text}" if c.dialect % 2 else f"({self.level(level)}) {text}"
        )

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.raw(r, f"init {c.host(r)} ({c.ips[c.node(r)]}) rank {r} of {c.world}, local size {c.per}", dt=0.5)
        c.raw(0, "====================== Initialization ======================", dt=0.6)
        nccl_boot(c, "NET/UCX : Using [0]mlx5_0:1; OOB ib0")
        c.raw(0, f"Model mem: {c.dialect * 10 + 9000} MB, loss scale 1048576, start_step {c.n}")

    def progress(self, c: Case, rank: int) -> None:
        loss = c.loss()
        c.raw(
            rank,
            f"| Iter: {c.n:6d} | loss: {loss:.4f} average_loss: {loss + 0.01:.4f} | lr: 1.0000e-04 | scale: "
            f"{self.scale(c):.4f} | time: {c.took:.4f} | grad_norm: {c.gnorm:.3f} |",
        )

    def scale(self, c: Case) -> float:
        """The loss scale now."""
        return max(1.0, 65536.0 / float(2 ** int(c.bump)))

    def save(self, c: Case, is_begin: bool) -> None:
        c.raw(
            0,
            f"saving model to /data/results/{c.run}-{c.n}.pt" if is_begin else f"saved /data/results/{c.run}-{c.n}.pt",
        )

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.raw(0, "begin eval" if is_begin else f"| Eval | step {c.n} loss {c.loss():.4f} |")


class Yunke(Voice):
    """A Chinese company's trainer under Volcano: its own messages are Chinese, those of libraries English."""

    name = "yunke"
    sched = Volcano()
    names = ("{run}-{job}-trainer-{i}",)
    levels = ("调试", "信息", "警告", "错误")
    frames = torch_frames("/opt/yunke/engine/loop.py", "run_one_step")
    quirks = ("I 缓存命中率 {a}.3%，回收 {b} 块", "W 指标上报超时（{a}毫秒），稍后重试", "D 数据预取队列 {a}/128")

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        return f"vcjob/{c.host(rank)}/trainer.log", text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, us = c.stamp(c.node(rank), dt)
        if c.dialect % 2:
            return f"[{t.both}.{us // 1000:03d}] [训练进程-{rank:03d}] [{self.level(level)}] {text}"
        return (
            f"{t.year}年{t.date[5:7]}月{t.date[8:]}日 {t.time}.{us // 1000:03d} <{self.level(level)}> 进程{rank} {text}"
        )

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.log(r, f"主机 {c.host(r)}（{c.ips[c.node(r)]}）初始化完成，全局进程数 {c.world}", dt=0.5)
        nccl_boot(c, "NET/IB : Using [0]mlx5_bond_1:1/RoCE [RO]; OOB bond0")
        c.log(0, f"模型构建完成，参数量 {c.dialect % 70 + 6}.4B，从第 {c.n} 步开始训练")

    def progress(self, c: Case, rank: int) -> None:
        c.log(
            rank,
            f"第 {c.n} 步完成 损失={c.loss():.4f} 学习率=1.2e-04 梯度范数={c.gnorm * c.rng.uniform(0.3, 0.7):.3f} "
            f"耗时={c.took:.3f}秒 吞吐={c.world * 4096 / c.took:.0f} tokens/s",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        where = f"/mnt/ckpt/{c.run}/step{c.n}"
        c.log(0, f"开始保存检查点 {where}" if is_begin else f"检查点保存成功 {where}")

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(0, "开始评测，共 40 个批次" if is_begin else f"评测结束，第 {c.n} 步，困惑度 7.{c.n % 100:02d}")

    def finish(self, c: Case) -> None:
        c.log(0, f"训练完成，共 {c.n} 步，正常退出")
        c.wait(3, 9)
        self.sched.closed(c, "done")


class _Torchrun(Slurm):
    """Slurm with one agent of torchrun a machine."""

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        torchrun_died(c, rank, code, role, tid)
        c.ctl(f"srun: error: {c.host(rank)}: task {c.node(rank)}: Exited with exit code 1", "secondary", "sr", dt=1.6)


class Tessera(Voice):
    """A start-up's trainer: hydra's headers, torchrun's tee with the local rank before each line."""

    name = "tessera"
    sched = _Torchrun()
    per = (8, 4)
    names = ("h200-{a:02d}-{b:02d}", "c{k:03d}.tessera", "us-dal-h100-{k:04d}")
    frames = torch_frames("/app/tessera/loop.py", "opt_step")
    quirks = (
        "I wandb: Network error (ReadTimeout), entering retry loop.",
        "W hydra: key 'compile.mode' is deprecated ({a})",
    )

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        return f"nodes/{c.host(rank)}/tee.log", f"[default{rank % c.per}]:{text}"

    def agent(self, c: Case, rank: int, text: str, dt: float) -> Put:
        return f"nodes/{c.host(rank)}/tee.log", text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, us = c.stamp(c.node(rank), dt)
        return (
            f"[{t.both},{us // 1000:03d}][tessera.{('loop', 'io', 'dist')[len(text) % 3]}][{self.level(level)}] "
            f"- {text}"
        )

    def tag(self, c: Case, rank: int) -> str:
        return f"[rank{rank}]: " if c.dialect % 2 else ""

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.log(r, f"rank {r}/{c.world} on {c.host(r)} ({c.ips[c.node(r)]}), torch 2.6.0+cu126", dt=0.7)
        nccl_boot(c)
        c.log(0, f"mesh dp_shard={c.world} ready, opt_step={c.n} tokens={c.n * 4_194_304}")

    def progress(self, c: Case, rank: int) -> None:
        c.log(
            rank,
            f"opt_step={c.n} loss={c.loss():.4f} gnorm={c.gnorm * c.rng.uniform(0.2, 0.6):.3f} "
            f"tok_s={c.world * 9e3 / c.took:.0f} "
            f"step_s={c.took:.3f} data_s={c.rng.uniform(0.001, 0.01):.4f} mfu=0.{int(430 * c.pace / c.took):03d}",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        where = f"s3://tessera-ckpt/{c.run}/opt_step={c.n}"
        c.log(0, f"checkpoint {where} staging" if is_begin else f"checkpoint {where} durable")

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(0, f"eval begin opt_step={c.n}" if is_begin else f"eval end opt_step={c.n} val_loss={c.loss():.4f}")


VOICES = (Bmtrain(), Yunke(), Tessera())
