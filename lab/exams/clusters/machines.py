"""Courses: machines fail, or a part of them that is no accelerator."""

from __future__ import annotations

from lab.exams.clusters.voices import PATIENT, PYTHON
from lab.exams.clusters.world import Entry, Fresh
from lab.exams.courses.world import Truth


def panic(w: Fresh) -> None:
    """A machine's kernel panics; netconsole stores its last messages, its programs print nothing more."""
    w.start()
    w.train(36, save_every=12)
    at = w.now + 0.7 * w.step_s
    w.kernel(
        at,
        w.victim,
        "BUG: unable to handle page fault for address: ffffb1c0a8f2e000\n~#PF: supervisor write access in kernel mode\n"
        "~#PF: error_code(0x0002) - not-present page\nOops: 0002 [#1] SMP NOPTI\n"
        "~CPU: 37 PID: {pid} Comm: kworker/37:2 Tainted: P           OE     5.15.0-1063 #69-Ubuntu\n"
        "~RIP: 0010:ib_umem_release+0x3a/0xd0 [ib_core]\n~Call Trace:\n~ <TASK>\n"
        "~ mlx5_ib_dereg_mr+0x9f/0x2a0 [mlx5_ib]\n~ ib_dereg_mr_user+0x44/0xb0 [ib_core]\n"
        "~ process_one_work+0x228/0x3d0\n~ worker_thread+0x4d/0x3f0\n~ </TASK>\n"
        "Kernel panic - not syncing: Fatal exception\n~Kernel Offset: 0x1a400000 from 0xffffffff81000000",
        "root",
        "panic",
    )
    w.silence(w.victim, at)
    w.over(w.wait_out(at, [w.victim]) + 4, first=0)
    w.truth = Truth(
        "hardware",
        "kernel_panic",
        faulty=(w.victim,),
        also_symptoms=("hang",),
        also_subcategories=("node_lost",),
        **w.at_last(),
    )


def memory_module(w: Fresh) -> None:
    """A DIMM has an error that cannot be corrected under a page of one rank, which gets a bus error."""
    w.start()
    w.train(27, save_every=9)
    _bus_error(w)


def _bus_error(w: Fresh) -> None:
    at = w.now + 0.5 * w.step_s
    w.kernel(
        at,
        w.victim,
        "mce: [Hardware Error]: Machine check events logged\n"
        "~{{1}}[Hardware Error]: event severity: recoverable\n"
        "EDAC skx MC3: 1 UE memory scrubbing error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 "
        "page:0x3c8f21a offset:0x0)\n"
        "Memory failure: 0x3c8f21a: Sending SIGBUS to python3:{pid} due to hardware memory corruption\n"
        "~Memory failure: 0x3c8f21a: recovery action for dirty LRU page: Recovered",
        "root",
        "mce",
        w.rank,
    )
    w.raw(at + 0.1, w.rank, "Fatal Python error: Bus error", "root", "sigbus")
    w.raw(at + 0.1, w.rank, "Thread 0x00007f{hex} (most recent call first):\n~  <no Python frame>", "context", "sigbus")
    w.broken(at + 1.5, [w.victim])
    w.over(at + 9)
    w.truth = Truth("hardware", "mce_memory", faulty=(w.victim,), also_subcategories=("native_crash",), **w.at_last())


def earlier_and_later(w: Fresh) -> None:
    """A job survives a device error of one machine by a restart; hours later another machine fails for good."""
    w.start()
    w.train(22, save_every=11)
    other = (w.victim + len(w.nodes) // 2) % len(w.nodes)
    rank, at = other * w.per + 3, w.now + 0.5 * w.step_s
    w.kernel(
        at,
        other,
        "NVRM: Xid (PCI:{pci}): 94, pid={pid}, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
        rank=rank,
    )
    w.boom(at + 0.4, rank, "RuntimeError: CUDA error: uncorrectable ECC error encountered", "", "")
    for each in w.ranks([other]):
        for j, text in enumerate(w.voice.reset):
            w.raw(at + 2 + 0.05 * j + w.rng.random(), each, text, "", "")
    name = w.nodes[other]
    if w.sched == "k8s":
        w.event(at + 40, "Warning", "Restarting", f"job/train-{w.job}", f"GPU of {name} reset, restarting all workers")
    else:
        w.launcher(at + 40, f"retry.sh: GPU of {name} reset, starting again from the last checkpoint (attempt 2 of 5)")
    w.now = at + 90
    w.start()
    w.train(44, save_every=11)
    _bus_error(w)


def killed_from_outside(w: Fresh) -> None:
    """One process gets signal 9 from an unknown sender."""
    w.start()
    w.train(32)
    at = w.now + 0.5 * w.step_s
    node = w.nodes[w.victim]
    if w.sched == "slurm":
        w.launcher(at + 1, f"srun: error: {node}: task {w.rank}: Killed", "root", "killed")
    elif w.sched == "mpi":
        who = f"process rank {w.rank} with PID {w.pids[w.rank]} on node {node}"
        w.launcher(at + 1, f"mpirun noticed that {who} exited on signal 9 (Killed).", "root", "killed")
    else:
        w.launcher(at + 1, f"run {{job}}: worker {w.rank} on {node} was ended by signal 9", "root", "killed")
    w.broken(at + 1, [w.victim])
    w.over(at + 12, first=0)
    w.truth = Truth(
        "hardware",
        "process_killed",
        origin=(w.victim,),
        also_categories=("user", "platform", "unknown"),
        also_subcategories=("host_oom", "unknown"),
        also_symptoms=("killed",),
        **w.at_last(),
    )


def scratch_disk_full(w: Fresh) -> None:
    """The local disk of one machine is full when the ranks on it write their part of a checkpoint."""
    w.start()
    w.train(30, save_every=10)
    w.say(w.now + 0.1, w.reporter, w.voice.save[0].replace("{n}", str(w.n)))
    for rank in w.of(w.victim):
        w.boom(
            w.now + 4 + w.rng.random(),
            rank,
            "OSError: [Errno 28] No space left on device: '/local/nvme0/ckpt/tmp/shard-{rank}.bin'",
            tid="space",
            where="save_checkpoint",
        )
    w.broken(w.now + 6, [w.victim])
    w.over(w.now + 15)
    w.truth = Truth(
        "hardware",
        "disk_full",
        "crash",
        "checkpoint_save",
        faulty=(w.victim,),
        failed_n=w.n,
        logged_n=w.told_n,
        also_categories=("platform", "user"),
        also_subcategories=("storage_quota",),
        also_stages=("training",),
    )


def two_run_hot(w: Fresh) -> None:
    """Two machines in one chassis lose their cooling and switch themselves off."""
    w.start()
    w.train(30, save_every=15)
    pair = (w.victim, w.victim + 1) if w.victim % 2 == 0 and w.victim + 1 < len(w.nodes) else (w.victim - 1, w.victim)
    at = w.now + 0.6 * w.step_s
    for k, node in enumerate(pair):
        w.kernel(
            at - 40 + k,
            node,
            "mce: CPU{num}: Core temperature is above threshold, cpu clock is throttled (total events = 2{num}1)",
            "root",
            "warm",
        )
        w.kernel(
            at + k,
            node,
            "thermal thermal_zone1: x86_pkg_temp: critical temperature reached, shutting down",
            "root",
            "critical",
        )
        w.silence(node, at + k)
    w.over(w.wait_out(at, pair) + 4, first=w.per * ((pair[1] + 1) % len(w.nodes)))
    w.truth = Truth(
        "hardware",
        "thermal_slowdown",
        faulty=pair,
        also_symptoms=("hang",),
        also_subcategories=("node_lost",),
        **w.at_last(),
    )


def vanishes(w: Fresh) -> None:
    """One of many machines stops writing."""
    w.start()
    w.train(28, save_every=14)
    at = w.now + 0.5 * w.step_s
    w.silence(w.victim, at)
    w.over(w.wait_out(at, [w.victim]) + 4, first=0 if w.victim else w.per)
    w.truth = Truth(
        "hardware",
        "node_lost",
        "hang",
        faulty=(w.victim,),
        also_symptoms=("crash",),
        also_subcategories=("kernel_panic",),
        **w.at_last(),
    )


MACHINES: dict[str, Entry] = {
    "panic": (panic, 48, PATIENT),
    "memory_module": (memory_module, 0, PYTHON),
    "earlier_and_later": (earlier_and_later, 32, ("nanotron", "pulse")),
    "killed_from_outside": (killed_from_outside, 0, ("metaseq", "olmo", "llmc", "kontor", "nxd")),
    "scratch_disk_full": (scratch_disk_full, 0, PYTHON),
    "two_run_hot": (two_run_hot, 48, PATIENT),
    "vanishes": (vanishes, 256, ("olmo", "pulse", "xingyun", "nanotron")),
}
