"""Courses in which a machine, its memory or its disk is at fault, or a process is killed on it."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.second import peers
from lab.exams.sealed.second.courses.base import (
    ALL,
    CUDA,
    PODS,
    SLURM,
    Found,
    bdf,
    quiet,
    ranks_of,
    start,
    stop_or_copy,
)

FOUND = Found()


@FOUND.course(("lingua", "smp_hyperpod", "trl_lsf", "openrlhf", "axlearn", "yunke", "clipper", "bmtrain"))
def power_gone(c: Case) -> None:
    """A machine loses its power; its files stop in the middle of things."""
    start(c)
    c.mark()
    c.gone.add(c.v)
    c.wait(5, 20)
    peers.broken(c, c.some(c.peers(), 4, 40), over=30)
    c.wait(60, 200)
    peers.ended(c, c.firsts())
    c.closed("lost", ROOT, "lost")
    c.blame("hardware/node_lost", "crash", "training", [c.v])


@FOUND.course(("lingua", "trl_lsf", "tessera", "primus"), 4, 16)
def silent_node_without_timeout(c: Case) -> None:
    """A machine vanishes from all logs; time-outs are switched off, somebody stops the job hours later."""
    c.ready()
    for _ in range(4):
        c.train(6, 14)
        for k in range(len(c.nodes)):
            c.unit(k, "health-agent[771]", f"ok: gpus {c.per}/{c.per}, links 8/8, load {c.rng.uniform(6, 30):.2f}")
    c.mark()
    c.gone.add(c.v)
    for _ in range(c.rng.randint(6, 14)):
        c.wait(500, 900)
        for k in range(len(c.nodes)):
            c.unit(k, "health-agent[771]", f"ok: gpus {c.per}/{c.per}, links 8/8, load {c.rng.uniform(90, 99):.2f}")
    c.wait(60, 600)
    c.closed("cancel", CONTEXT)
    c.blame("hardware/node_lost", "hang", "training", [c.v], also="hardware/process_stuck")


@FOUND.course(CUDA)
def processor_check(c: Case) -> None:
    """A fatal machine check; the machine does not come back."""
    start(c)
    c.mark()
    bank = c.dialect % 28
    c.kern(
        c.v,
        f"mce: [Hardware Error]: CPU {c.dialect % 190}: Machine Check Exception: 5 Bank {bank}: bd80000000100134",
        ROOT,
        "mce",
    )
    c.kern(c.v, f"mce: [Hardware Error]: RIP !INEXACT! 33:<00007f{c.pids[0]:x}>", CONTEXT, "", 0.001)
    c.kern(c.v, "mce: [Hardware Error]: Machine check: Data load in unrecoverable area of kernel", ROOT, "mce2", 0.002)
    c.kern(c.v, "Kernel panic - not syncing: Fatal local machine check", ROOT, "panic", 0.003)
    c.gone.add(c.v)
    c.wait(3, 9)
    peers.broken(c, c.some(c.peers(), 4, 40), over=20)
    c.wait(100, 200)
    c.closed("lost")
    c.blame("hardware/mce_memory", "crash", "training", [c.v], also="hardware/kernel_panic")


@FOUND.course(ALL)
def kernel_soft_lockup(c: Case) -> None:
    """A processor hangs in the kernel; that machine's ranks stand still."""
    start(c)
    c.mark()
    cpu, pid = c.dialect % 120, c.pids[c.vr]
    for k in range(c.rng.randint(2, 6)):
        c.kern(
            c.v,
            f"watchdog: BUG: soft lockup - CPU#{cpu} stuck for {22 + 26 * k}s! [kworker/{cpu}:1:{pid}]",
            ROOT,
            "lockup",
            22 + 28 * k,
        )
        c.kern(c.v, "RIP: 0010:native_queued_spin_lock_slowpath+0x1ce/0x210", CONTEXT, "", 22.01 + 28 * k)
    c.kern(c.v, f"rcu: INFO: rcu_sched self-detected stall on CPU {cpu}", ROOT, "rcu", 61)
    waiting = [r for r in c.peers() if c.rng.random() < 0.6]
    peers.timeout(c, waiting)
    c.wait(3, 8)
    c.died(waiting[0], -6)
    c.closed("fail")
    c.blame("hardware/kernel_panic", "hang crash", "training", [c.v])


@FOUND.course(("clipper", "yunke", "tessera", "primus", "trl_lsf", "bmtrain", "lingua"))
def memory_of_the_group(c: Case) -> None:
    """The kernel kills a process at the container's limit; the others only see a closed connection."""
    start(c)
    c.mark()
    pid, group = (
        c.pids[c.vr],
        f"/kubepods.slice/kubepods-pod{c.dialect}" if c.voice.name in PODS else f"/system.slice/job_{c.job}/step_0",
    )
    c.kern(
        c.v,
        "pt_data_worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=985",
        ROOT,
        "invoked",
    )
    c.kern(c.v, "memory: usage 1887436800kB, limit 1887436800kB, failcnt 421", CONTEXT, "", 0.01)
    c.kern(
        c.v,
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1,"
        f"oom_memcg={group},task=python3,pid={pid},uid=0",
        ROOT,
        "constraint",
        0.02,
    )
    c.kern(
        c.v,
        f"Memory cgroup out of memory: Killed process {pid} (python3) total-vm:412873456kB, "
        "anon-rss:231871232kB, file-rss:91232kB",
        ROOT,
        "killed",
        0.03,
    )
    if c.voice.name in PODS:
        c.ctl(
            f"Warning   OOMKilling   pod/{c.victim}   Memory cgroup out of memory: Killed process {pid} (python3)",
            ROOT,
            "event",
            1,
        )
    c.blame("hardware/host_oom", "crash", "training", [c.v], also="user/host_memory_leak")
    peers.fall(c, -9)


@FOUND.course(
    ("clipper", "tessera", "bmtrain", "lingua", "trl_lsf", "openrlhf", "yunke", "smp_hyperpod", "fleetx", "xtuner_npu")
)
def killed_and_nothing_else(c: Case) -> None:
    """A process is gone by signal 9. Kernel logs of all machines were kept and say nothing of it."""
    start(c)
    quiet(c, 1.0)
    c.mark()
    c.died(c.vr, -9, ROOT, "killed")
    c.dead.add(c.vr)
    c.wait(1, 5)
    peers.broken(c, c.some(c.peers(), 4, 30))
    c.wait(4, 10)
    peers.ended(c, c.firsts())
    c.closed("fail")
    c.blame("hardware/process_killed", "crash", "training", [c.v], also="hardware/host_oom")


@FOUND.course(("lingua", "smp_hyperpod", "tessera", "primus", "clipper", "yunke"))
def drive_read_only(c: Case) -> None:
    """A local drive fails and its file system refuses writes; the data cache of that machine is on it."""
    start(c)
    c.mark()
    for k in range(c.rng.randint(2, 5)):
        c.kern(c.v, f"nvme nvme1: I/O {c.dialect + k} QID {k + 3} timeout, aborting", ROOT, "nvme-to", k)
    sector = c.rng.getrandbits(31)
    c.kern(
        c.v,
        f"blk_update_request: I/O error, dev nvme1n1, sector {sector} op 0x1:(WRITE) flags 0x4000 "
        "phys_seg 12 prio class 0",
        ROOT,
        "blk",
        31,
    )
    c.kern(
        c.v,
        "EXT4-fs error (device nvme1n1p1): ext4_journal_check_start:83: comm python3: Detected aborted journal",
        ROOT,
        "ext4",
        31.2,
    )
    c.kern(c.v, "EXT4-fs (nvme1n1p1): Remounting filesystem read-only", ROOT, "ro", 31.3)
    c.now += 31
    c.trace(
        c.vr,
        (f"OSError: [Errno 30] Read-only file system: '/local/cache/shard-{c.n:06d}.tmp'",),
        ROOT,
        "erofs",
        "data",
        1,
    )
    c.wait(2, 4)
    c.blame("hardware/disk_io", "crash", "training", [c.v])
    peers.fall(c)


@FOUND.course(("lingua", "tessera", "clipper", "primus", "bmtrain", "trl_lsf", "xtuner_npu"))
def no_space_for_the_shard(c: Case) -> None:
    """The scratch drive of one machine is full when its shard is written."""
    start(c, 20, 60, save=8)
    c.voice.save(c, True)
    c.mark()
    if c.rng.random() < 0.5:
        text = f"/scratch: 99.{c.dialect % 9}% used, 1.1G of 3.5T left"
        c.unit(c.v, "disk-watch[640]", text, ROOT, "watch", -200)
    c.wait(2, 9)
    c.trace(
        c.vr,
        (f"OSError: [Errno 28] No space left on device: '/scratch/ckpt/{c.run}/step{c.n}/__{c.vr}_0.distcp'",),
        ROOT,
        "enospc",
        "save",
    )
    c.wait(1, 3)
    c.blame("hardware/disk_full", "crash", "checkpoint_save training", [c.v])
    peers.fall(c)


@FOUND.course(("smp_hyperpod",))
def adapter_of_the_cloud(c: Case) -> None:
    """The cloud's adapter on one machine stops answering its driver."""
    start(c)
    c.mark()
    at = f"{bdf(c, c.vr)}.0"
    c.kern(c.v, f"efa {at}: The ena admin sq is stuck, command opcode 4 timed out", ROOT, "adminq")
    c.kern(
        c.v,
        f"efa {at} rdmap{c.dialect % 90}s0: Failed to process command CREATE_MR (opcode 7) comp_status 7 err -62",
        ROOT,
        "cmd",
        0.5,
    )
    c.wait(8, 20)
    for r in ranks_of(c, c.v)[:3]:
        c.raw(
            r,
            f"{c.victim}:{c.pids[r]}:{c.pids[r] + 40} [{r % c.per}] nccl_net_ofi_rdma.cpp:733 "
            "NCCL WARN NET/OFI Request completed with error. "
            "RC: 5. Error: 103 (local device failure)",
            SECOND,
            "local",
            c.rng.random(),
        )
    c.blame("hardware/nic_link_flap", "crash", "training", [c.v])
    peers.fall(c)


@FOUND.course(("lingua", "clipper", "yunke", "tessera"))
def slot_at_half_width(c: Case) -> None:
    """After corrected errors a device's slot runs with fewer lanes; that machine's copies are slow."""
    start(c, 30, 60)
    c.mark()
    at = f"{bdf(c, c.vr)}.0"
    c.kern(
        c.v,
        f"nvidia {at}: 63.008 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x4 "
        f"link at {at[:-5]}:01.0 (capable of 504.112 Gb/s)",
        ROOT,
        "width",
    )
    for _ in range(c.rng.randint(5, 9)):
        for _ in range(c.rng.randint(2, 6)):
            c.kern(
                c.v,
                f"pcieport {at[:-5]}:01.0: AER: Correctable error message received from {at}",
                ROOT,
                "aer",
                c.rng.random(),
            )
            c.kern(
                c.v,
                f"nvidia {at}: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
                ROOT,
                "aer2",
                1 + c.rng.random(),
            )
        c.train(3, 7, 1.9)
    c.log(
        0,
        f"phase times p50: forward {c.pace / 3:.2f}s, h2d slowest rank {c.vr} {c.pace:.2f}s (median of ranks 0.02s)",
        "W",
        ROOT,
        "h2d",
    )
    c.train(2, 6, 1.9)
    stop_or_copy(c)
    c.blame("hardware/pcie_aer", "slow", "training", [c.v], also="performance/straggler")


@FOUND.course((*SLURM, "bmtrain"))
def table_of_connections_full(c: Case) -> None:
    """A machine's firewall drops packets; the store on it is not reached in time."""
    c.v, c.vr = 0, 0
    start(c)
    c.mark()
    for k in range(c.rng.randint(4, 30)):
        c.kern(
            0, "nf_conntrack: nf_conntrack: table full, dropping packet", ROOT, "conntrack", 3.0 * k + c.rng.random()
        )
    c.wait(120, 300)
    for r in c.some(c.peers(), 5, 30):
        t, us = c.stamp(c.node(r))
        c.raw(
            r,
            f"[W{t.mmdd} {t.time}.{us:06d} socket.cpp:755] [c10d] The client socket has timed "
            "out after 60000ms while trying to connect to "
            f"({c.ips[0]}, 29500).",
            SECOND,
            "c10d",
            c.rng.uniform(0, 20),
        )
        c.trace(
            r,
            (
                "torch.distributed.DistNetworkError: The client socket has timed out after "
                f"60000ms while trying to connect to ({c.ips[0]}, 29500).",
            ),
            SECOND,
            "net",
            "reduce",
            21,
        )
    c.now += 25
    c.died(c.per, 1)
    c.closed("fail")
    c.blame("network/packet_loss", "crash", "training", [0])


@FOUND.course(CUDA)
def pinned_memory(c: Case) -> None:
    """One machine's limit of locked memory is lower than the others': registration fails there."""
    c.voice.launched(c)
    c.voice.boot(c)
    quiet(c, 0.3)
    mine = ranks_of(c, c.v)
    for r in mine:
        c.raw(
            r,
            f"{c.victim}:{c.pids[r]}:{c.pids[r] + 7} [{r % c.per}] NCCL WARN Call to "
            "ibv_create_cq failed with error Cannot allocate memory. "
            "Check memlock: ulimit -l is 64 KiB",
            ROOT,
            "memlock",
            c.rng.random(),
        )
    for r in mine[:2]:
        c.trace(
            r,
            ("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",),
            SECOND,
            "system",
            "reduce",
            1.2,
        )
    c.wait(2, 5)
    peers.fall(c)
    c.blame(
        "user/bad_config",
        "launch_failure crash",
        "rendezvous model_build launch training",
        [c.v],
        also="platform/scheduler framework/nccl_internal",
    )
