"""Messages of the other ranks about a peer that failed or does not respond, by communication library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lab.exams.sealed.common.case import CONTEXT, SECOND

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

PATIENCE = {"nccl": 600, "efa": 600, "rccl": 600, "mpi": 1800, "jax": 100, "hccl": 1800, "paddle": 1800}


def _nccl_head(c: Case, rank: int) -> str:
    return f"{c.host(rank)}:{c.pids[rank]}:{c.pids[rank] + 311} [{rank % c.per}]"


def _gloo(c: Case, r: int, role: str, dt: float) -> None:
    """The CPU barrier (Gloo) reports it first."""
    text = f"[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [{c.ips[c.v]}]:{20_000 + r}"
    c.trace(r, (f"RuntimeError: {text}",), role, "gloo", "reduce", dt)


def _aborted(c: Case, r: int, role: str, dt: float) -> None:
    """Only the watchdog reports it."""
    t, us = c.stamp(c.node(r), dt)
    pre = f"[rank{r}]:[E{t.mmdd} {t.time}.{us:06d}{r % 900:03d} ProcessGroupNCCL.cpp"
    work = f"WorkNCCL(SeqNum={c.n * 37 + 4212}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"
    c.raw(
        r,
        f"{pre}:542] [Rank {r}] Collective {work} raised the following async exception: NCCL "
        "error: remote process exited or "
        "there was a network error",
        role,
        "async",
        dt,
    )
    c.raw(r, "terminate called after throwing an instance of 'c10::DistBackendError'", role, "terminate", dt + 0.05)


def broken(c: Case, ranks: Iterable[int], role: str = SECOND, over: float = 4.0) -> None:
    """The connection to the victim's process is gone."""
    stack, peer = c.voice.stack, f"{c.ips[c.v]}<{30_000 + c.dialect * 7}>"
    for r in ranks:
        dt = c.rng.uniform(0.2, over)
        head = _nccl_head(c, r)
        t, us = c.stamp(c.node(r), dt)
        match stack:
            case "nccl" | "rccl" | "mpi":
                if c.variant % 4 == 1:
                    _gloo(c, r, role, dt)
                    continue
                if c.variant % 4 == 2:
                    _aborted(c, r, role, dt)
                    continue
                lib = "RCCL" if stack == "rccl" else "NCCL"
                c.raw(
                    r,
                    f"{head} misc/socket.cc:552 {lib} WARN socketProgress: Connection closed by remote peer {peer}",
                    role,
                    "net-closed",
                    dt,
                )
                what = (
                    "torch.distributed.DistBackendError: NCCL error in: "
                    "../torch/csrc/distributed/c10d/NCCLUtils.cpp:94, remote process exited or "
                    "there was a network error, NCCL version 2.23.4"
                )
                c.trace(
                    r,
                    (
                        what,
                        "ncclRemoteError: A call failed possibly due to a network error or a remote "
                        "process exiting prematurely.",
                        f"Last error: socketProgress: Connection closed by remote peer {peer}",
                    ),
                    role,
                    "remote",
                    "reduce",
                    dt + 0.1,
                )
            case "efa":
                c.raw(
                    r,
                    f"{head} nccl_net_ofi_rdma.cpp:901 NCCL WARN NET/OFI Request "
                    f"0x7f{c.pids[r]:x}0 completed with error. RC: 12. "
                    "Error: 4113 (Unresponsive receiver (connection never established or "
                    "unreachable peer)), Completed length: 0",
                    role,
                    "ofi",
                    dt,
                )
                c.raw(
                    r,
                    f"[rank{r}]:[E{t.mmdd} {t.time}.{us:06d}102 ProcessGroupNCCL.cpp:629] [Rank "
                    f"{r}] Some NCCL operations have failed "
                    "or timed out.",
                    role,
                    "some",
                    dt + 0.3,
                )
            case "hccl":
                c.raw(
                    r,
                    f"[ERROR] HCCL({c.pids[r]},python3):{t.date}-{t.time}.{us // 1000:03d}.{us % 1000:03d} "
                    "[hccl_socket.cc:388]"
                    f"[{c.pids[r]}][Recv] socket of remote rank ip[{c.ips[c.v]}] was closed by "
                    "peer, errno 104",
                    role,
                    "sock",
                    dt,
                )
                c.trace(
                    r,
                    ("RuntimeError: The Inner error is reported as above. ERR02200 DIST call hccl api failed.",),
                    role,
                    "dist",
                    "reduce",
                    dt + 0.2,
                )
            case "jax":
                c.raw(
                    r,
                    f"E{t.mmdd} {t.time}.{us:06d} {c.pids[r]} coordination_service_agent.cc:354] "
                    "Polled an error from coordination "
                    "service (this can be an error from this or another task).",
                    role,
                    "poll",
                    dt,
                )
                c.raw(
                    r,
                    f"F{t.mmdd} {t.time}.{us:06d} {c.pids[r]} client.h:80] Terminating process "
                    "because the JAX distributed service "
                    "detected fatal errors. This most likely indicates that another task died",
                    role,
                    "jaxterm",
                    dt + 0.1,
                )
            case _:
                c.raw(
                    r,
                    f"E{t.mmdd} {t.time}.{us:06d} {c.pids[r]} comm_task_manager.cc:274] "
                    "communication of ring 21 was aborted: ncclRemoteError, "
                    f"peer endpoint {c.ips[c.v]}:6170",
                    role,
                    "ring",
                    dt,
                )
                c.trace(
                    r,
                    (
                        "ExternalError: NCCL error(6), remote process exited or there was a network error. (at "
                        "../paddle/phi/core/distributed/nccl_comm_context.cc:124)",
                    ),
                    role,
                    "remote",
                    "reduce",
                    dt + 0.1,
                )


def timeout(c: Case, ranks: Iterable[int], role: str = SECOND, patience: float | None = None) -> None:
    """A collective that did not end in time."""
    limit = PATIENCE[c.voice.stack] if patience is None else patience
    c.now += limit
    ms, seq = int(limit * 1000), c.n * 37 + 4211
    for r in ranks:
        dt = c.rng.uniform(0.0, 3.0)
        t, us = c.stamp(c.node(r), dt)
        match c.voice.stack:
            case "nccl" | "rccl" | "efa" | "mpi":
                pre = f"[rank{r}]:[E{t.mmdd} {t.time}.{us:06d}{r % 900:03d} ProcessGroupNCCL.cpp"
                work = (
                    f"WorkNCCL(SeqNum={seq}, OpType=_ALLGATHER_BASE, NumelIn=1638400, "
                    f"NumelOut={1638400 * 8}, Timeout(ms)={ms})"
                )
                c.raw(
                    r,
                    f"{pre}:632] [Rank {r}] Watchdog caught collective operation timeout: {work} "
                    f"ran for {ms + r % 90} milliseconds "
                    "before timing out.",
                    role,
                    "watchdog",
                    dt,
                )
                c.raw(
                    r,
                    f"{pre}:684] [Rank {r}] Some NCCL operations have failed or timed out. Due "
                    "to the asynchronous nature of CUDA "
                    "kernels, subsequent GPU operations might run on corrupted/incomplete data.",
                    CONTEXT,
                    "",
                    dt + 0.01,
                )
                c.raw(
                    r,
                    f"{pre}:1896] [PG ID 2 PG GUID 3(fsdp) Rank {r}] Process group watchdog "
                    "thread terminated with exception: "
                    f"[Rank {r}] Watchdog caught collective operation timeout",
                    role,
                    "watchdog2",
                    dt + 0.02,
                )
            case "hccl":
                c.raw(
                    r,
                    f"[ERROR] HCCL({c.pids[r]},python3):{t.date}-{t.time}.{us // 1000:03d}.{us % 1000:03d} "
                    "[task_exception_handler.cc:702]"
                    f"[{c.pids[r]}][TaskExecStage][Timeout][HOST]Task run failed, "
                    f"taskType[Notify], timeout:[{int(limit)}s]",
                    role,
                    "notify",
                    dt,
                )
                c.raw(
                    r,
                    "EI0002: [PID: "
                    + str(c.pids[r])
                    + "] The wait execution of the Notify register times out. Reason: The Notify "
                    "register has not received the Notify record from remote rank",
                    role,
                    "ei0002",
                    dt + 0.1,
                )
            case "jax":
                c.raw(
                    r,
                    f"E{t.mmdd} {t.time}.{us:06d} {c.pids[r]} megascale_rendezvous.cc:211] "
                    f"launch group {seq}: waited {int(limit)}s for "
                    "transfers from other hosts, DEADLINE_EXCEEDED",
                    role,
                    "deadline",
                    dt,
                )
                c.trace(
                    r,
                    (
                        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: collective was "
                        "not completed by all participants",
                    ),
                    role,
                    "xla",
                    "step",
                    dt + 0.1,
                )
            case _:
                c.raw(
                    r,
                    f"E{t.mmdd} {t.time}.{us:06d} {c.pids[r]} comm_task_manager.cc:151] Detected "
                    "timeout of task op: ALL_REDUCE, gid: 21, "
                    f"rank: {r}, seq: {seq}, timeout: {ms}ms",
                    role,
                    "commtask",
                    dt,
                )


def ended(c: Case, ranks: Iterable[int]) -> None:
    """Processes that were told to stop."""
    for r in ranks:
        if c.rng.random() < 0.5:
            t, us = c.stamp(c.node(r), 1.0)
            if c.variant % 3 == 1:
                c.raw(r, f"[rank {r}] SIGTERM in the main thread, leaving the training loop", SECOND, "sigterm", 1.0)
                continue
            if c.variant % 3 == 2:
                text = (
                    f"torch.distributed.elastic.multiprocessing.api.SignalException: Process {c.pids[r]} got signal: 15"
                )
                c.raw(
                    r,
                    text if c.voice.stack != "jax" else "*** SIGTERM received by PID, stack trace: ***",
                    SECOND,
                    "sigterm",
                    1.0,
                )
                continue
            c.raw(
                r,
                f"W{t.mmdd} {t.time}.{us // 1000:03d}000 {c.pids[r]} received signal 15, stopping workers",
                SECOND,
                "sigterm",
                1.0,
            )


def fall(c: Case, code: int = 1, how: str = "fail") -> None:
    """The victim's process is gone: peers notice, the launcher reports it, the job ends."""
    c.died(c.vr, code)
    c.dead.add(c.vr)
    c.wait(1, 6)
    broken(c, c.some(c.peers(), 4, max(4, len(c.peers()) // 2)))
    c.wait(4, 12)
    ended(c, c.firsts())
    c.closed(how)
