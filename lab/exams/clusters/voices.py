"""Loggers and training loops: five public ones and four in the style of companies."""

from __future__ import annotations

import json
from datetime import datetime

from lab.exams.courses.voices import Voice

#: Seconds until the communication library of a voice gives up on a collective.
PATIENCE = {"metaseq": 1800.0, "xingyun": 1836.0, "kontor": 900.0}

#: Voices by platform: CUDA; PyTorch's own back end; watchdogs that give up after some time; Python.
NVIDIA = ("nanotron", "pulse", "metaseq")
TORCH = (*NVIDIA, "olmo")
PATIENT = (*TORCH, "xingyun", "kontor", "nxd")
PYTHON = (*PATIENT, "levanter")

_NCCL_OLD_RESET = (
    "{node}:{pid}:{tid} [{local}] include/socket.h:409 NCCL WARN Net : Connection closed by remote peer "
    "{peer}<{port}>\n"
    "{node}:{pid}:{tid} [{local}] NCCL INFO transport/net_socket.cc:493 -> 2",
    "Traceback (most recent call last):\n"
    '  File "/shared/metaseq/metaseq/trainer.py", line 871, in train_step\n'
    "    grad_norm = self.clip_grad_norm(self.cfg.optimization.clip_norm)\n"
    "RuntimeError: NCCL communicator was aborted on rank {rank}.  Original reason for failure was: NCCL error: "
    "unhandled system error, NCCL version 21.0.3",
)
_NCCL_OLD_TIMEOUT = (
    "[E ProcessGroupNCCL.cpp:566] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 18000{num} milliseconds before timing out.",
    "[E ProcessGroupNCCL.cpp:325] Some NCCL operations have failed or timed out. Due to the asynchronous nature of "
    "CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data. To avoid this inconsistency, we "
    "are taking the entire process down.",
)
_NCCL_RESET = (
    "\n[{local}] {iso} {node}:{pid}:{tid} misc/socket.cc:67 NCCL WARN socketProgressOpt: Connection closed by remote "
    "peer {peer}<{port}>\n"
    "{node}:{pid}:{tid} [{local}] NCCL INFO misc/socket.cc:881 -> 6\n"
    "{node}:{pid}:{tid} [{local}] NCCL INFO transport/net.cc:1298 -> 6\n"
    "{node}:{pid}:{tid} [{local}] NCCL INFO proxy.cc:694 -> 6",
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/opt/train/run_train.py", line 237, in <module>\n'
    "[rank{rank}]:     trainer.train(dataloader)\n"
    '[rank{rank}]:   File "/opt/train/src/trainer.py", line 512, in training_step\n'
    "[rank{rank}]:     torch.distributed.all_reduce(loss, group=dp_pg)\n"
    "[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: "
    "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2251, remote process exited or there was a network error\n"
    "[rank{rank}]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
    "prematurely.\n"
    "[rank{rank}]: Last error:\n"
    "[rank{rank}]: socketProgressOpt: Connection closed by remote peer {peer}<{port}>",
)
_NCCL_TIMEOUT = (
    "[rank{rank}]:[E{mmdd} {hms} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={seq}, OpType=_REDUCE_SCATTER_BASE, NumelIn=412876800, NumelOut=3225600, Timeout(ms)=600000) ran "
    "for 6000{num} milliseconds before timing out.",
    "[rank{rank}]:[E{mmdd} {hms} ProcessGroupNCCL.cpp:2268] [PG ID 1 PG GUID 1 Rank {rank}]  failure detected by "
    "watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {lastseq}",
    "[rank{rank}]:[E{mmdd} {hms} ProcessGroupNCCL.cpp:684] [Rank {rank}] Some NCCL operations have failed or timed "
    "out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete "
    "data.\n"
    "[rank{rank}]:[E{mmdd} {hms} ProcessGroupNCCL.cpp:690] [Rank {rank}] To avoid data inconsistency, we are taking "
    "the entire process down.",
)
_MPI_RESET = ("[NCCL ERROR] at file llmc/zero.cuh:142:\nremote process exited or there was a network error",)
_NEURON_RESET = (
    "{neuron} {pid}:{tid} ERROR  CCOM: WARN NET/OFI Request 0x7f{hex} completed with error. RC: 107. Error: 107 "
    "(Transport endpoint is not connected). Completed length: 0",
    "Traceback (most recent call last):\n"
    '  File "/opt/nxd/run_llama.py", line 402, in train_epoch\n'
    "    xm.mark_step()\n"
    "RuntimeError: Bad StatusOr access: UNAVAILABLE: connection to a peer of the replica group was lost",
)
_NEURON_TIMEOUT = (
    "{neuron} {pid}:{tid} ERROR  TDRV:exec_consume_infer_status_notifications    Missing infer_status notification: "
    "(end:1)\n"
    "{neuron} {pid}:{tid} ERROR  NMGR:dlr_infer    Inference completed with err: 5\n"
    "RuntimeError: Bad StatusOr access: INTERNAL: nrt_execute failed with status NRT_TIMEOUT",
)
_GAUDI_RESET = (
    "[{hms}][HCL_TCP][error][tid:{tid}] recvAllFromSocket: socket to {peerip} was closed by its other side",
    "RuntimeError: Collective call returned error: hcclRemoteError",
)
_GAUDI_TIMEOUT = (
    "[{hms}][SYN_STREAM][error][tid:{tid}] synEventSynchronize: event did not finish in 900 s, scale-out stream",
    "RuntimeError: synStatus=26 [Generic failure] Event queries failed while waiting for an all_reduce",
)
_HCCL_RESET = (
    "[ERROR] ROCE({pid},hccp_service.bin):{ascend} [rs_ctx.c:688]tid:{tid},rs_drv_poll_cqe(688) : error cqe status: "
    "12, local_ip {ip} remote_ip {peerip}",
    "RuntimeError: [ERROR] HCCL error in: build/CMakeFiles/torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:512\n"
    "[ERROR] {ascend} (PID:{pid}, Device:{local}, RankID:{rank}) ERR02200 DIST call hccl api failed.\n"
    "EI0013: [PID: {pid}] {ascend} An error CQE occurred during operator execution. Local information: server "
    "{ip}, device ID {local}. Peer information: server {peerip}.",
)
_HCCL_TIMEOUT = (
    "EI0002: [PID: {pid}] {ascend} The wait execution of the Notify register times out. Reason: The Notify register "
    "has not received the Notify record from remote rank {peerrank}. base information: [streamID:[17], taskID[{num}], "
    "tag[AllReduce_group_name_0], AlgType:[H-D_R].]\n"
    "        Possible Cause: 1. An exception occurs during the execution on some NPUs in the cluster. 2. The execution "
    "speed of some NPUs is too slow. 3. The network is interrupted.\n"
    "        Solution: 1. If all NPUs report this error, check the host whose log lacks it first.",
    "RuntimeError: npuSynchronizeDevice:build/CMakeFiles/torch_npu/core/npu/NPUStream.cpp:391 NPU function error: "
    "aclrtSynchronizeDevice, error code is 107020",
)
_JAX_RESET = (
    "F{mmdd} {hms} {pid} client.h:80] Terminating process because the JAX distributed service detected fatal errors. "
    "This most likely indicates that another task died; see the other task logs for more details. absl::Status: "
    "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
    "/job:jax_worker/replica:0/task:{badrank}\n"
    "The tasks have crashed. Check the task logs for an earlier error, or scheduler events (e.g. preemption, eviction) "
    "to debug further.",
)


def _metaseq(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"{at:%Y-%m-%d %H:%M:%S} | {level} | metaseq.trainer | {text}"]


def _olmo(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    first, *rest = text.split("\n")
    head = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}\t{who['node']}:{who['local']}\tolmo.train:967\t{level}"
    return [f"{head}\t{first}", *rest]


def _nanotron(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"{at:%m/%d/%Y %H:%M:%S} [{level}|DP={who['rank']}|PP=0|TP=0|{who['node']}]: {text}"]


def _bare(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [text]


def _nxd(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"LOG {at:%a %b %d %H:%M:%S %Y} - (0, {who['rank']}) {text}"]


def _levanter(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"{at:%Y-%m-%dT%H:%M:%S} - {who['rank']} - levanter.trainer - trainer.py:431 - {level} :: {text}"]


_GERMAN = {"INFO": "INFO", "WARNING": "WARNUNG", "ERROR": "FEHLER"}


def _kontor(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [
        f"zeit={at:%d.%m.%Y-%H:%M:%S},{at.microsecond // 1000:03d} stufe={_GERMAN[level]} "
        f'rechner={who["node"]} rang={who["rank"]} text="{text}"'
    ]


_FACES = {"INFO": "🟢", "WARNING": "🟡", "ERROR": "🔴"}


def _pulse(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"{at.timestamp():.3f};{_FACES[level]};{who['node']}/{who['local']};r{who['rank']};{text}"]


_CHINESE = {"INFO": "信息", "WARNING": "警告", "ERROR": "错误"}


def _xingyun(at: datetime, level: str, text: str, who: dict[str, object]) -> list[str]:
    return [f"[{at:%Y-%m-%d %H:%M:%S}] [{_CHINESE[level]}] [节点{who['node']} 卡{who['local']}] {text}"]


def _metaseq_step(n: int, s: float, loss: float) -> str:
    row = {"epoch": 1, "actual_loss": f"{loss:.3f}", "loss": f"{loss:.3f}", "wps": f"{4194304 / s:.0f}"}
    told = json.dumps({**row, "num_updates": str(n), "train_wall": f"{s:.2f}", "gnorm": "0.6"})
    return "train_inner | " + told.replace("{", "{{").replace("}", "}}")


def _olmo_step(n: int, s: float, loss: float) -> str:
    return (
        f"[step={n}/739328]\n    train/CrossEntropyLoss={loss:.3f}\n    optim/total_grad_norm=0.2{n % 10}1\n"
        f"    throughput/device/batches_per_second={1 / s:.4f}"
    )


def _xingyun_step(n: int, s: float, loss: float) -> str:
    return f"第 {n} 步完成，用时 {s:.2f} 秒，损失 {loss:.4f}，学习率 1.5e-05"


VOICES = (
    Voice(
        "metaseq",
        _metaseq,
        _metaseq_step,
        (
            ("launch", "distributed init (rank {rank}): tcp://{first}:14322"),
            ("rendezvous", "initialized host {node} as rank {rank} of {world}"),
            ("model_build", "num. model params: 13,112,434,688 on rank {rank}"),
            ("checkpoint_load", "Loaded checkpoint /ckpt/checkpoint_last-shard{rank}.pt @ {n} updates"),
            ("training", "Start iterating over samples"),
        ),
        ("Preparing to save checkpoint @ {n} updates", "Saved checkpoint @ {n} updates to /ckpt"),
        "done training in 51433.4 seconds",
        _NCCL_OLD_RESET,
        _NCCL_OLD_TIMEOUT,
    ),
    Voice(
        "olmo",
        _olmo,
        _olmo_step,
        (
            ("launch", "CLI environment prepared, local rank {local} of host {node}"),
            ("rendezvous", "Process group initialized (global rank {rank} of {world})"),
            ("model_build", "Building model... 6,888,095,744 parameters"),
            ("checkpoint_load", "Checkpoint successfully loaded at step {n}"),
            ("training", "Starting training..."),
        ),
        ("Saving checkpoint for step {n}...", "Checkpoint saved to /scratch/olmo/step{n}"),
        "Training complete",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
        vendor="amd",
    ),
    Voice(
        "nanotron",
        _nanotron,
        lambda n, s, x: (
            f"iteration: {n} / 90000 | consumed_tokens: {n * 4.2:.1f}M | elapsed_time_per_iteration_ms: "
            f"{s * 1e3:.0f} | tokens_per_sec: {4.2e6 / s / 1e3:.0f}K | lm_loss: {x:.2f} | grad_norm: 0.41"
        ),
        (
            ("launch", "Config: general.run=pretrain, parallelism.dp={world}"),
            ("rendezvous", "Initialized process groups on rank {rank} of {world}"),
            ("model_build", "Building model.. Local number of parameters: 1.24G (2365.30MiB)"),
            ("checkpoint_load", "Loading weights from /fsx/ckpt/{n} finished"),
            ("training", "[Start training] datetime set | mbs: 2 | grad_accum: 16"),
        ),
        ("Saving weights at /fsx/ckpt/{n}", "Saved checkpoint {n} with metadata"),
        "Training is done, all batches consumed",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
    ),
    Voice(
        "llmc",
        _bare,
        lambda n, s, x: (
            f"step {n:5d}/90000 | loss {x:7.6f} (-0.11z)| norm 0.2881 (+0.{n % 90:02d}z)| lr 5.87e-04 | "
            f"{s * 1e3:.2f} ms | 54.1% bf16 MFU | {524288 / s:.0f} tok/s"
        ),
        (
            ("launch", "Multi-GPU support is enabled. process_rank {rank} of {world} on {node}"),
            ("rendezvous", "rank {rank}: nccl communicator created"),
            ("model_build", "| num_parameters         | 1558938880                                         |"),
            ("checkpoint_load", "Loaded state of step {n}"),
            ("training", "rank {rank}: allocated 29112 MiB for activations, starting"),
        ),
        ("Writing model to log124M/model_{n}.bin", "Writing state to log124M/state_{n}.bin, DONE"),
        "total average iteration time: 301.2 ms",
        _MPI_RESET,
        (),
    ),
    Voice(
        "nxd",
        _nxd,
        lambda n, s, x: f"step {n} step_loss : {x:.4f} learning_rate : 1.50e-04 step_time : {s:.2f} throughput : 14.2",
        (
            ("launch", "launched on {node}, neuron core {local}"),
            ("rendezvous", "torch_xla runtime is up, replica {rank} of {world}"),
            ("model_build", "model compiled, 48 graphs from the cache"),
            ("checkpoint_load", "resumed from /fsx/nxd/step_{n}"),
            ("training", "begin of training loop"),
        ),
        ("async saving of step {n} begun", "async saving of step {n} completed"),
        "Training finished!",
        _NEURON_RESET,
        _NEURON_TIMEOUT,
        vendor="trainium",
    ),
    Voice(
        "levanter",
        _levanter,
        lambda n, s, x: (
            f"Progress on:train {n}it/90.0kit rate:{1 / s:.2f}it/s remaining:9:41:07 elapsed:12:02 postfix:loss={x:.3f}"
        ),
        (
            ("launch", "starting on {node}, process {rank}"),
            ("rendezvous", "jax.distributed initialized, {world} devices"),
            ("model_build", "model initialized, 7.1B parameters"),
            ("checkpoint_load", "Loaded checkpoint of step {n} from gs://runs/ckpt"),
            ("training", "First batch ready, compiling train step"),
        ),
        ("Saving checkpoint at step {n}", "Committed checkpoint of step {n}"),
        "Training finished, exiting.",
        _JAX_RESET,
        (),
        vendor="tpu",
    ),
    Voice(
        "kontor",
        _kontor,
        lambda n, s, x: f"Schritt {n} fertig, Verlust {x:.4f}, Dauer {s:.2f} s, Durchsatz {1e6 / s:.0f} Token/s",
        (
            ("launch", "Prozess gestartet, Gaudi-Karte {local}"),
            ("rendezvous", "Verbund aufgebaut: Rang {rank} von {world}"),
            ("model_build", "Modell angelegt: 13 Mrd. Parameter"),
            ("checkpoint_load", "Sicherungspunkt geladen, weiter bei Schritt {n}"),
            ("training", "Beginne mit dem Training"),
        ),
        ("Sicherung von Schritt {n} beginnt", "Sicherung von Schritt {n} abgeschlossen"),
        "Training beendet, alles in Ordnung",
        _GAUDI_RESET,
        _GAUDI_TIMEOUT,
        vendor="gaudi",
    ),
    Voice(
        "pulse",
        _pulse,
        lambda n, s, x: f"🚀 step={n};loss={x:.4f};dt={s * 1e3:.0f}ms;tok={2e6 / s:.0f}",
        (
            ("launch", "👋 boot node={node} world={world}"),
            ("rendezvous", "🤝 joined rank={rank}/{world}"),
            ("model_build", "🧱 model built params=34.1B"),
            ("checkpoint_load", "📦 ckpt restored step={n}"),
            ("training", "🏁 training loop entered"),
        ),
        ("💾 ckpt begin step={n}", "💾 ckpt done step={n}"),
        "🎉 run complete",
        _NCCL_RESET,
        _NCCL_TIMEOUT,
        is_every_rank=True,
    ),
    Voice(
        "xingyun",
        _xingyun,
        _xingyun_step,
        (
            ("launch", "进程启动，全局编号 {rank}，共 {world} 卡"),
            ("rendezvous", "通信域初始化完成 rank={rank}"),
            ("model_build", "模型构建完成，参数量 38B"),
            ("checkpoint_load", "已加载检查点，从第 {n} 步继续"),
            ("training", "开始训练"),
        ),
        ("开始保存检查点 step={n}", "检查点保存完成 step={n}"),
        "训练正常结束",
        _HCCL_RESET,
        _HCCL_TIMEOUT,
        vendor="ascend",
    ),
)
