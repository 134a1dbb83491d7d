"""What other ranks print of a process that is gone or silent, by communication library: tables of formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lab.exams.sealed.common.case import SECOND

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

PATIENCE = {"nccl": 900, "rccl": 900, "cncl": 1800, "oneccl": 1200, "tpu": 300, "ucx": 240}
_PG = "[rank{rank}]:[{letter}{t.mmdd} {t.time}.{us}{pid:06d} ProcessGroup{lib}.cpp"
_WORK = "Work{lib}(SeqNum={seq}, OpType=COALESCED, NumelIn={d}24, NumelOut={d}2400, Timeout(ms)={ms})"
#: Of these one is drawn for a job.
_BROKEN: dict[str, tuple[str, ...]] = {
    "nccl": (
        "[{t.both}] {host}:{pid}:{aux} [{local}] misc/socket.cc:71 NCCL WARN Call to recv from {peer}<{port}> failed : "
        "Connection reset by peer",
        "[{t.both}] {host}:{pid}:{aux} [{local}] transport/net_ib/p2p.cc:511 NCCL WARN NET/IB: Got completion from "
        "peer {peer}<{port}> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=0 len=0 vendor err 129 (Recv) "
        "hca mlx5_{local}",
        _PG + ":2084] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with "
        "exception: NCCL error: remote process exited or there was a network error, NCCL version 2.27.5",
    ),
    "rccl": (
        "{host}:{pid}:{aux} [{local}] NCCL WARN NET/OFI Request 0x7f{pid:x}a0 completed with error. RC: 107. Error: "
        "107 (Transport endpoint is not connected) peer {peer}",
        _PG + ":1979] [PG ID 1 PG GUID 4 Rank {rank}] Exception (either an error or timeout) detected by watchdog at "
        "work: {seq}, last enqueued: {seq}, last completed: {seq}: remote error, peer {peer}",
    ),
    "cncl": (
        "[{t.both}.{ms3}] [CNCL] [Error] [{pid}] [transport/roce/link.cpp:388] remote {peer}:{port} closed the link, "
        "CNCL_RET_ERR_IBV",
        _PG + ":742] [Rank {rank}] CNCL async error: CNCL_RET_ERR_SYSTEM, aborting communicator",
    ),
    "oneccl": (
        "{y}:{mo}:{da}-{t.time}:({pid:6d}) |CCL_ERROR| atl_ofi.cpp:{d} atl_ofi_comm progress: fi_cq_readerr: err 103, "
        "prov_err CANCELED, peer {peer}",
        "x_mpi: Abort({d}) on node {rank}: Fatal error in internal_Allreduce: Other MPI error, OFI poll failed "
        "(default nic=cxi{local}: Connection reset by peer {peer})",
    ),
    "tpu": (
        "E{t.mmdd} {t.time}.{us} {pid:7d} coordination_service.cc:1418] /job:jax_worker/replica:0/task:{vn} has been "
        "set to ERROR in coordination service: UNAVAILABLE: Task heartbeat timeout",
        "E{t.mmdd} {t.time}.{us} {pid:7d} dcn_channel.cc:291] UNAVAILABLE: connection to {peer}:8471: Socket closed",
    ),
    "ucx": (
        "[{epoch}] [{host}:{pid}:0] ib_mlx5_log.c:171 UCX  ERROR Transport retry count exceeded on mlx5_{local}:1/RoCE "
        "(synd 0x15 vend 0x81 hw_synd 0/0) RC QP 0x{d:x}3 wqe[{seq}] dest {peer}",
        "thread 'anneau-{local}' panicked at coeur/src/anneau/voisin.rs:214:31: voisin {peer} perdu: ConnectionReset",
    ),
}
_TIMEOUT: dict[str, tuple[str, ...]] = {
    "nccl": (
        _PG + ":685] [Rank {rank}] Watchdog caught collective operation timeout: " + _WORK + " ran for {ms7} "
        "milliseconds before timing out.",
        _PG + ":1575] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout "
        "from rank {rank} and we will try our best to dump the debug info.",
    ),
    "cncl": (_PG + ":655] [Rank {rank}] Watchdog caught collective operation timeout: " + _WORK,),
    "oneccl": (
        "{y}:{mo}:{da}-{t.time}:({pid:6d}) |CCL_ERROR| sched_timer: schedule allreduce count {seq} not completed in "
        "{secs} sec",
    ),
    "tpu": (
        "E{t.mmdd} {t.time}.{us} {pid:7d} rendezvous.cc:118] DEADLINE_EXCEEDED: This thread has been waiting for "
        "`launch_id {seq}` for {secs} seconds and may be stuck",
        "F{t.mmdd} {t.time}.{us} {pid:7d} pjrt_host.cc:66] Check failed: status is OK (DEADLINE_EXCEEDED)",
    ),
    "ucx": (
        "thread 'anneau-{local}' panicked at coeur/src/anneau/attente.rs:77:13: délai dépassé: {secs} s sans progrès, "
        "opération {seq}",
    ),
}
_TIMEOUT["rccl"] = _TIMEOUT["nccl"]


def _say(c: Case, r: int, text: str, role: str, tid: str, dt: float, limit: float) -> None:
    t, us = c.stamp(c.node(r), dt)
    told = {
        **{"t": t, "us": f"{us:06d}", "ms3": f"{us // 1000:03d}", "y": t.year, "mo": t.date[5:7], "da": t.date[8:]},
        **{"host": c.host(r), "pid": c.pids[r], "aux": c.pids[r] + 402, "local": r % c.per, "rank": r, "vn": c.v},
        **{"peer": c.ips[c.v], "port": 40_000 + c.dialect, "seq": c.n * 53 + 1207, "d": c.dialect + 11, "letter": "E"},
        **{"lib": "CNCL" if c.voice.stack == "cncl" else "NCCL", "ms": int(limit * 1000), "secs": int(limit)},
        **{"ms7": int(limit * 1000) + r % 80, "epoch": f"{c.t0 + c.now + dt:.6f}"},
    }
    c.raw(r, text.format(**told), role, tid, dt)


def broken(c: Case, ranks: Iterable[int], role: str = SECOND, over: float = 5.0) -> None:
    """The connection to the victim's process is gone."""
    texts = _BROKEN[c.voice.stack]
    k = c.variant % len(texts)
    for r in ranks:
        _say(c, r, texts[k], role, f"broken{k}", c.rng.uniform(0.3, over), 0)


def timeout(c: Case, ranks: Iterable[int], role: str = SECOND, patience: float | None = None) -> None:
    """A collective that did not end in time."""
    limit = PATIENCE[c.voice.stack] if patience is None else patience
    c.now += limit
    for r in ranks:
        dt = c.rng.uniform(0, 4)
        for k, text in enumerate(_TIMEOUT[c.voice.stack]):
            _say(c, r, text, role, f"timeout{k}", dt + k / 50, limit)


def ended(c: Case, ranks: Iterable[int]) -> None:
    """Processes that were told to stop."""
    words = (
        "caught SIGTERM, draining the feed and leaving",
        "stop requested from outside, no checkpoint is written",
        "*** Received signal 15 ***",
    )
    for r in ranks:
        if c.rng.random() < 0.6:
            c.log(r, words[c.variant % 3], "W", SECOND, "term", 1 + c.rng.random())


def fall(c: Case, code: int = 1, how: str = "fail") -> None:
    """The victim's process is gone: the scheduler and the others notice, the job ends."""
    c.died(c.vr, code)
    c.dead.add(c.vr)
    c.wait(1, 8)
    broken(c, c.some(c.peers(), 4, max(4, len(c.peers()) // 2)))
    c.wait(5, 15)
    ended(c, c.firsts())
    c.closed(how)


def stuck(c: Case, code: int = -6) -> None:
    """Everybody waits for the victim until a watchdog ends it; the scheduler names one that waited."""
    waiting = [r for r in c.peers() if c.rng.random() < 0.5] or c.peers()[:1]
    timeout(c, waiting)
    c.wait(3, 9)
    c.died(waiting[0], code)
    c.wait(2, 6)
    c.closed("fail")
