"""Voices on NVIDIA clusters with PyTorch: research code under Slurm, Ray, HyperPod, Kubeflow and LSF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.exams.sealed.second.cloud_schedulers import Hyperpod, Ray, Torchjob
from lab.exams.sealed.second.schedulers import Lsf, Slurm
from lab.exams.sealed.second.voices.base import Put, Voice, torch_frames

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case


def nccl_boot(c: Case, net: str = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eno1") -> None:
    """What the communication library prints at the start, on every machine."""
    for r in c.firsts():
        head = f"{c.host(r)}:{c.pids[r]}:{c.pids[r]} [0] NCCL INFO"
        c.raw(r, f"{head} Bootstrap : Using eno1:{c.ips[c.node(r)]}<0>", dt=0.4)
        c.raw(r, f"{head} {net}:{c.ips[c.node(r)]}<0>", dt=0.5)
    many = 1 if c.world > 256 else 2 if c.world > 128 else c.per
    for r in c.alive():
        if r % c.per < many:
            _channels(c, r)
    c.raw(0, "NCCL version 2.23.4+cuda12.6", dt=0.3)
    c.wait(4, 9)


def _channels(c: Case, r: int) -> None:
    """The set-up messages of one rank's communicator."""
    head, local = f"{c.host(r)}:{c.pids[r]}:{c.pids[r] + 5} [{r % c.per}] NCCL INFO", r % c.per
    up, down = (r + 1) % c.world, (r - 1) % c.world
    how = "P2P/CUMEM/read" if up // c.per == r // c.per else f"NET/IB/{local}/GDRDMA"
    for k in range(2):
        c.raw(r, f"{head} Channel {k:02d}/0 : {r}[{local}] -> {up}[{up % c.per}] [send] via {how}", dt=1 + 0.1 * k)
    c.raw(r, f"{head} Trees [0] {up}/-1/-1->{r}->{down} [1] {up}/-1/-1->{r}->{down}", dt=1.3)
    c.raw(r, f"{head} Connected all rings, use ring PXN 0 GDR 1", dt=1.5)
    name = f"comm 0x55{c.pids[r]:x} rank {r} nranks {c.world} cudaDev {local}"
    c.raw(r, f"{head} {name} nvmlDev {local} busId {local + 1}b000 commId 0x{c.dialect:x}d41 - Init COMPLETE", dt=2)


class Lingua(Voice):
    """A research code base: one file a task, time since the start in each line."""

    name = "lingua"
    sched = Slurm()
    most = 16
    names = ("node-h{k:03d}", "hpc-{a:02d}-{b:02d}", "lux{k:04d}")
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    frames = torch_frames("/checkpoint/lingua/apps/main/train.py", "train")
    quirks = ("D async checkpoint thread idle", "W probe: skipping module output without gradient ({a})")

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        return f"{c.run}/logs/{c.job}/{rank}.out", text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, us = c.stamp(c.node(rank), dt)
        spent = int(c.now)
        since = f"{spent // 3600}:{spent // 60 % 60:02d}:{spent % 60:02d}"
        return f"{rank}: {self.level(level):7} {t.date[2:]} {t.time}.{us:06d} - {since} - {text}"

    def tag(self, c: Case, rank: int) -> str:
        return f"[rank{rank}]: " if c.dialect % 2 else ""

    def boot(self, c: Case) -> None:
        c.log(0, f"Starting job: {c.run}")
        for r in c.firsts():
            c.log(r, f"Run on {c.host(r)} (task {r}, local 0) with master {c.nodes[0]} ({c.ips[0]})", dt=0.1)
        nccl_boot(c)
        c.log(0, f"Building model {c.run} on meta device, world size {c.world}")
        c.log(0, f"Model size: {c.dialect + 900:,}{'' if c.dialect % 2 else '0'},193,536 total parameters")
        if c.n:
            c.log(0, f"Reloading train state from /checkpoint/{c.user}/{c.run}/checkpoints/{c.n:010d}")
            c.wait(5, 20)
        c.log(0, f"Warming up profiler, starting at step {c.n}")

    def progress(self, c: Case, rank: int) -> None:
        t = f"{c.took:.4f}"
        c.log(
            rank,
            f"step: {c.n}  acc: 0  loss: {c.loss():7.4f}  grad: {c.gnorm * c.rng.uniform(0.2, 0.6):.2e}  "
            f"flops: {4.1e14 * c.pace / c.took:.2e}  wps: {9.1e3 * c.pace / c.took:.2e}  iter: {t}  "
            f"data: {c.rng.uniform(0.001, 0.004):.4f}  lr: 3.00e-04  mem: {60 + c.dialect % 9}%  "
            f"pow: {610 + c.rng.gauss(0, 9):.4f} W",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        where = f"/checkpoint/{c.user}/{c.run}/checkpoints/{c.n:010d}"
        c.log(0, f"Saving to: {where}" if is_begin else f"Checkpoint written: {where}, cleaned up 1 old checkpoint")

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(
            0,
            f"Launching evals at step {c.n}" if is_begin else f"Evals done: hellaswag acc_norm {c.dialect / 1700:.4f}",
        )


class OpenRlhf(Voice):
    """Reinforcement learning from feedback on Ray: the driver's output holds the actors' lines."""

    name = "openrlhf"
    sched = Ray()
    most = 24
    every = (1, 1, 2)
    pace = (18.0, 60.0)
    names = ("ray-{run}-gpu-worker-{hex}{k:02d}", "ray-worker-h100-{k:04d}")
    frames = torch_frames("/tmp/ray/session_latest/runtime_resources/openrlhf/trainer/ray/ppo_actor.py", "fit")
    quirks = (
        "W Sequence group {a} is preempted by PreemptionMode.RECOMPUTE because there is not enough KV cache space",
        "I vllm engine {a}: Avg generation throughput: {b}.2 tokens/s, Running: {a} reqs, Waiting: 0 reqs",
        "W reward server returned 502, attempt 1 of 5, retrying in 2s",
        "I replay buffer: {b} experiences, mean length {b}",
    )

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        who = "PolicyModelActor" if rank % c.per < (c.per + 1) // 2 else "ReferenceModelActor"
        at = "" if c.node(rank) == 0 else f", ip={c.ips[c.node(rank)]}"
        return f"driver-{c.job}.log", f"\x1b[36m({who} pid={c.pids[rank]}{at})\x1b[0m {text}"

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, us = c.stamp(c.node(rank), dt)
        return f"{level} {t.mmdd} {t.time}.{us // 1000:03d} {c.pids[rank]} ppo_actor.py:{100 + len(text) % 200}] {text}"

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            text = (
                f"actor group rank {r} placed on {c.host(r)} ({c.ips[c.node(r)]}), master {c.ips[0]}:2{c.dialect:04d}"
            )
            c.log(r, text, dt=0.1)
        c.add(f"driver-{c.job}.log", "Loading checkpoint shards: 100%|██████████| 4/4 [00:09<00:00,  2.31s/it]", dt=9)
        nccl_boot(c, "NET/Socket : Using [0]eth0")
        c.log(0, f"max_steps {c.total}, rollout batch 1024, micro batch 8, resume from step {c.n}")

    def progress(self, c: Case, rank: int) -> None:
        reward = c.n / (c.n + 300) - 0.2 + c.rng.gauss(0, 0.02) - c.bump
        c.log(
            rank,
            f"global_step {c.n}: {{'policy_loss': {c.rng.gauss(0, 0.02):.5f}, 'kl': "
            f"{c.rng.uniform(0.01, 0.04):.4f}, "
            f"'reward': {reward:.4f}, 'response_length': {c.rng.gauss(700, 30):.1f}, 'make_experience': "
            f"{c.took * 0.62:.1f}, 'train': {c.took * 0.35:.1f}, 'grad_norm': {c.gnorm:.3f}}}",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        where = f"/ckpt/{c.run}/global_step{c.n}"
        c.log(0, f"saving actor and critic to {where}" if is_begin else f"saved {where}/hf")

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(0, "generating for AIME eval set, 30 x 16 samples" if is_begin else f"eval pass@1 {c.dialect / 2000:.3f}")


class HyperpodSmp(Voice):
    """Sharded training on SageMaker HyperPod with EFA; one file a machine on FSx."""

    name = "smp_hyperpod"
    stack = "efa"
    sched = Hyperpod()
    names = ("ip-10-{a}-{b}-{k}", "ip-172-31-{a}-{k}")
    levels = ("D", "I", "W", "E")
    frames = torch_frames("/fsx/apps/smp/train_utils.py", "train_step")
    quirks = ("W smp: tensor parallel rng state is not checkpointed ({a})", "D fsx lazy load hit {b} blocks")

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        pre = f"{c.node(rank)}: " if c.dialect % 3 == 0 else ""
        return f"fsx/logs/{c.run}_{c.job}/{c.host(rank)}.out", pre + text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, us = c.stamp(c.node(rank), dt)
        return (
            f"{t.both},{us // 1000:03d} {self.level(level)} "
            f"[train_utils.py:{200 + len(text) % 90}] (rank {rank}) {text}"
        )

    def tag(self, c: Case, rank: int) -> str:
        return f"[rank{rank}]: "

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.raw(
                r,
                f"+ torchrun --nproc_per_node {c.per} --nnodes {len(c.nodes)} "
                f"--rdzv_endpoint={c.nodes[0]}:29400 main.py",
            )
            head = f"{c.host(r)}:{c.pids[r]}:{c.pids[r]} [0] NCCL INFO"
            c.raw(r, f"{head} NET/OFI Initializing aws-ofi-nccl 1.13.2-aws", dt=3)
            c.raw(r, f"{head} NET/OFI Selected Provider is efa (found 16 nics)", dt=3.2)
            c.log(r, f"local world {c.per}, node {c.host(r)}, address {c.ips[c.node(r)]}", dt=4)
        c.wait(6, 14)
        c.log(
            0,
            f"Created FSDP model with {c.dialect + 7},{c.dialect % 900 + 100},000,000 params, "
            f"HYBRID_SHARD over {c.per}",
        )
        if c.n:
            c.log(0, f"Loading sharded checkpoint /fsx/ckpt/{c.run}/step{c.n} ...")
            c.wait(8, 30)
            c.log(0, f"Loaded, total_steps {c.n}")

    def progress(self, c: Case, rank: int) -> None:
        c.log(
            rank,
            f"Batch {c.n} Loss: {c.loss():.5f}, Speed: {c.world * 4 / c.took:.2f} samples/sec, Model TFLOPS/GPU: "
            f"{402 * c.pace / c.took:.2f}, lr: 0.000120, gradnorm: {c.gnorm * c.rng.uniform(0.3, 0.7):.4f}",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        for r in c.firsts()[:: 1 if c.dialect % 2 else 4]:
            text = f"to /fsx/ckpt/{c.run}/step{c.n}"
            c.log(r, f"Writing sharded checkpoint {text}" if is_begin else f"Finished checkpoint {text}", dt=r / 900)

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(0, "Validation over 40 batches" if is_begin else f"Batch {c.n} Validation loss: {c.loss():.4f}, ppl 7.21")


class Clipper(Voice):
    """Vision and language pre-training under Kubeflow; each pod's output with the collector's times."""

    name = "clipper"
    sched = Torchjob()
    most = 32
    pace = (0.8, 3.0)
    every = (5, 10)
    names = ("{run}-worker-{i}",)
    frames = torch_frames("/workspace/src/vl_train/train.py", "train_one_epoch")
    quirks = (
        "W Handling webdataset error (OSError('image file is truncated (12 bytes not processed)')). Ignoring.",
        "W PIL/TiffImagePlugin.py:949: UserWarning: Truncated File Read",
    )

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        t, us = c.utc(c.node(rank), dt)
        pre = f"{t.iso}.{us:06d}{rank % 997:03d}Z " if c.dialect % 2 else ""
        return f"pods/{c.host(rank)}.log", pre + text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, _ = c.stamp(c.node(rank), dt)
        return f"{t.date},{t.time} | {self.level(level)} | Rank {rank} | {text}"

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.log(
                r,
                f"Running in distributed mode with multiple processes on {c.host(r)}. Device: cuda:0. Process "
                f"(global: {r}, local 0), total {c.world}.",
                dt=1,
            )
        nccl_boot(c, "NET/IB : Using [0]mlx5_bond_0:1/RoCE [RO]; OOB eth0")
        c.log(0, "Params:  batch_size: 256  precision: amp_bf16  workers: 8  local_loss: True")
        if c.n:
            c.log(0, f"=> resuming checkpoint '/data/ckpt/{c.run}/step_{c.n}.pt'")
        c.log(0, "Start epoch 0")

    def progress(self, c: Case, rank: int) -> None:
        c.log(
            rank,
            f"Train Step: {c.n}/{c.total} Data (t): {c.rng.uniform(0.01, 0.03):.3f} Batch (t): {c.took:.3f}, "
            f"{256 * c.world / c.took:.0f}/s, {256 / c.took:.1f}/s/gpu LR: 0.000500 Logit Scale: "
            f"14.{c.n % 900:03d} "
            f"Contrastive_loss: {c.loss():.4f} ({c.loss():.4f})",
        )

    def save(self, c: Case, is_begin: bool) -> None:
        where = f"/data/ckpt/{c.run}/step_{c.n}.pt"
        c.log(0, f"Saving checkpoint {where}" if is_begin else f"Saved {where}, uploading in background")

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(
            0,
            "Starting zero-shot imagenet."
            if is_begin
            else f"Eval Step: {c.n} imagenet-zeroshot-val-top1: 0.4{c.n % 97:02d}",
        )


class Trl(Voice):
    """Fine-tuning with accelerate under LSF: progress bars that redraw themselves, and dictionaries."""

    name = "trl_lsf"
    sched = Lsf()
    most = 12
    per = (4, 8)
    names = ("atl{a:02d}n{b:02d}", "lsfgpu-{k:03d}")
    frames = torch_frames("/gpfs/proj/sft/run_sft.py", "training_step")
    quirks = (
        "W Token indices sequence length is longer than the specified maximum sequence length for "
        "this model ({b} > 2048)",
        "W Could not estimate the number of tokens of the input, floating-point operations will not be computed",
    )

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        return f"out.{c.job}/{c.host(rank)}.txt", text

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        t, us = c.stamp(c.node(rank), dt)
        if c.dialect % 2:
            return f"{t.month}/{t.date[8:]}/{t.year} {t.time} - {self.level(level)} - __main__ - [rank {rank}] {text}"
        return (
            f"[{self.level(level)}|run_sft.py:{100 + len(text) % 300}] {t.both},{us // 1000:03d} "
            f">> [rank {rank}] {text}"
        )

    def boot(self, c: Case) -> None:
        for r in c.firsts():
            c.log(
                r,
                f"accelerate: machine rank {c.node(r)} of {len(c.nodes)} is {c.host(r)}, main {c.nodes[0]}:29511",
                dt=1,
            )
        nccl_boot(c)
        c.log(0, "***** Running training *****")
        c.log(0, f"  Num processes = {c.world}, Total optimization steps = {c.total}, continuing from step {c.n}")

    def progress(self, c: Case, rank: int) -> None:
        done, width = c.n / c.total, 10
        bar = "█" * int(done * width) + " " * (width - int(done * width))
        seen = "\r".join(
            f"{100 * (c.n - k) // c.total:3d}%|{bar}| {c.n - k}/{c.total} "
            f"[{int(c.now) // 60:02d}:{int(c.now) % 60:02d}, "
            f"{c.took:.2f}s/it]"
            for k in reversed(range(min(c.every, c.n)))
        )
        c.raw(rank, seen)
        told = {
            "loss": round(c.loss(), 4),
            "grad_norm": round(c.gnorm * c.rng.uniform(0.4, 0.9), 4),
            "learning_rate": 2e-05,
        }
        facts: dict[str, Any] = {**told, "mean_token_accuracy": 0.71, "epoch": round(c.n / 4_000, 3)}
        c.raw(rank, str(facts))

    def save(self, c: Case, is_begin: bool) -> None:
        where = f"/gpfs/proj/out/{c.run}/checkpoint-{c.n}"
        c.log(0, f"Saving model checkpoint to {where}" if is_begin else f"tokenizer config file saved in {where}")

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(
            0,
            "***** Running Evaluation *****" if is_begin else f"{{'eval_loss': {c.loss():.4f}, 'eval_runtime': 41.2}}",
        )


VOICES = (Lingua(), OpenRlhf(), HyperpodSmp(), Clipper(), Trl())
