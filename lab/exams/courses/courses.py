"""Courses of events for developing the engine: each writes one job and its truth."""

from __future__ import annotations

from collections.abc import Callable

from lab.exams.courses.world import Truth, World

type Course = Callable[[World], None]

STEP = ("main", "fit", "train_step", "backward")
LOAD = ("main", "fit", "next_batch", "__next__")
SAVE = ("main", "fit", "save_checkpoint", "write_shard")


def slow_node(w: World) -> None:
    """One machine computes slower from some iteration on; each rank prints its compute and wait times."""
    w.start()
    w.train(24)
    low = w.n
    for k in range(24):
        w.train(1, slower=1.6)
        if k % 2 == 0:
            for rank in w.ranks():
                slow = rank // w.per == w.victim
                busy = w.step_s * (1.5 if slow else 0.88) * w.rng.uniform(0.98, 1.02)
                wait = max(w.step_s * 1.6 - busy, 0.01)
                w.say(w.now, rank, f"rank {rank} compute {busy * 1e3:.1f} ms, waiting for peers {wait * 1e3:.1f} ms")
    w.launcher(w.now + 20, "job {job} stopped by its owner")
    w.truth = Truth(
        "performance",
        "straggler",
        "slow",
        faulty=(w.victim,),
        failed_n=low + 1,
        logged_n=low,
        also_categories=("hardware",),
        also_subcategories=("slow_step", "thermal_slowdown"),
    )


def slow_without_a_word(w: World) -> None:
    """Iterations take longer from some iteration on; nothing shows why."""
    w.start()
    w.train(30)
    low = w.n
    w.train(30, slower=1.7)
    w.truth = Truth(
        "performance",
        "slow_step",
        "slow",
        failed_n=low + 1,
        logged_n=low,
        also_subcategories=("straggler", "slow_network", "slow_dataloader"),
        affected=tuple(range(len(w.nodes))),
    )


def flap_that_passes(w: World) -> None:
    """A port goes down and up, the library retries, training goes on and completes."""
    w.start()
    w.train(20)
    w.kernel(w.now + 0.2, w.victim, "mlx5_core {pci}.0 rdma2: Link down")
    w.raw(w.now + 0.5, w.rank, "{node}:{pid}:{pid} [{local}] NCCL WARN NET/IB : Got async event : port error")
    w.raw(w.now + 4.0, w.rank, "{node}:{pid}:{pid} [{local}] NCCL WARN NET/IB: retransmission, attempt 2 of 7")
    w.kernel(w.now + 6.0, w.victim, "mlx5_core {pci}.0 rdma2: Link up")
    w.now += 8
    w.train(40, save_every=20)
    w.done()


def silent_node(w: World) -> None:
    """A machine stops writing; the others wait until their watchdogs give up."""
    w.start()
    w.train(30, save_every=15)
    at = w.now + 0.4 * w.step_s
    w.silence(w.victim, at)
    w.waited(at + 600, [w.victim])
    w.over(at + 620)
    w.truth = Truth(
        "hardware",
        "node_lost",
        "hang",
        faulty=(w.victim,),
        also_symptoms=("crash",),
        also_subcategories=("kernel_panic", "process_killed"),
        **w.at_last(),
    )


def switch_takes_eight(w: World) -> None:
    """A leaf switch reboots: all machines below it lose their links at once."""
    w.start()
    w.train(26)
    at, leaf = w.now + 0.3 * w.step_s, w.leaves[w.victim]
    below = [k for k, where in enumerate(w.leaves) if where == leaf]
    for k in below:
        w.kernel(at + w.rng.random() * 0.4, k, "mlx5_core {pci}.0 rdma0: Link down", "root", "link")
        w.kernel(at + w.rng.random() * 0.4, k, "mlx5_core {pci}.1 rdma1: Link down", "root", "link")
    for rank in w.ranks():
        for text in w.voice.timeout:
            w.raw(at + 600 + w.rng.random() * 3, rank, text, "secondary", "timeout")
    w.over(at + 620)
    w.truth = Truth(
        "network",
        "link_down",
        "hang",
        affected=tuple(below),
        switch=leaf,
        also_symptoms=("crash",),
        also_categories=("hardware",),
        also_subcategories=("nic_link_flap", "switch_rdma_timeout"),
        **w.at_last(),
    )


def rack_without_power(w: World) -> None:
    """Three machines of one rack lose power at the same instant."""
    w.start()
    w.train(22)
    at = w.now + 0.5 * w.step_s
    lost = [k for k in range(len(w.nodes)) if k // 3 == w.victim // 3]
    for k in lost:
        w.silence(k, at)
    w.broken(at + 30, lost)
    for k in lost:
        w.launcher(at + 40, f"agent on {w.nodes[k]} missed 4 heartbeats, node marked dead", "root", "dead")
    w.over(at + 60)
    w.truth = Truth(
        "hardware",
        "node_lost",
        faulty=tuple(lost),
        also_categories=("platform",),
        also_symptoms=("hang",),
        **w.at_last(),
    )


def loader_stuck(w: World) -> None:
    """One rank waits for its data loader for ever; the others wait for it."""
    w.start()
    w.train(28)
    at = w.now
    for k in (60, 180, 420):
        w.say(at + k, w.rank, f"no batch from input pipeline for {k} s, queue is empty", "root", "empty", "WARNING")
    w.waited(at + 600, [w.victim])
    w.over(at + 620)
    w.truth = Truth(
        "framework",
        "dataloader_hang",
        "hang",
        faulty=(w.victim,),
        also_symptoms=("crash",),
        also_categories=("user", "platform"),
        also_subcategories=("storage_outage",),
        **w.at_last(),
    )


def writer_blocked(w: World) -> None:
    """The checkpoint writer of one machine hangs in its file system."""
    w.start()
    w.train(24)
    w.say(w.now + 0.1, w.reporter, w.voice.save[0].replace("{n}", str(w.n)))
    at = w.now
    w.kernel(at + 60, w.victim, "nfs: server store-{digit} not responding, still trying", "root", "nfs")
    w.kernel(at + 130, w.victim, "INFO: task python:{pid} blocked for more than 122 seconds.", "root", "blocked")
    w.waited(at + 600, [w.victim])
    w.over(at + 620)
    w.truth = Truth(
        "platform",
        "storage_outage",
        "hang",
        "checkpoint_save",
        faulty=(w.victim,),
        failed_n=w.n,
        logged_n=w.told_n,
        also_categories=("hardware",),
        also_subcategories=("disk_io", "storage_io"),
        also_symptoms=("crash",),
        also_stages=("training",),
    )


def device_gone_without_xid(w: World) -> None:
    """A GPU drops off; there is no kernel log of that machine, only the output of the program and a health probe."""
    w.start()
    w.train(25)
    at = w.now + 0.3 * w.step_s
    w.trace(at, w.rank, STEP, "RuntimeError: CUDA error: device is lost, no longer accessible", "root", "lost")
    w.say(
        at + 1,
        w.rank,
        "nvidia-smi: Unable to determine the device handle for GPU {pci}.0: GPU is lost. Reboot "
        "the system to recover this GPU",
        "root",
        "smi",
        "ERROR",
    )
    w.lines = [x for x in w.lines if x.stream != "kernel" or x.node != w.victim]
    w.broken(at, [w.victim])
    w.over(at + 20)
    w.truth = Truth("hardware", "gpu_off_bus", faulty=(w.victim,), **w.at_last())


def nan_everywhere(w: World) -> None:
    """The loss becomes NaN on every rank, and the program stops itself."""
    w.start()
    w.train(27)
    at = w.now + w.step_s
    for rank in w.ranks():
        w.trace(
            at + w.rng.random() * 0.2,
            rank,
            STEP,
            "FloatingPointError: loss is nan at step {n}, aborting",
            "root",
            "nan",
        )
    w.over(at + 12)
    w.truth = Truth("user", "nan_divergence", affected=tuple(range(len(w.nodes))), **w.at_last())


def long_sequence(w: World) -> None:
    """One rank gets a longer sequence than fits into its GPU."""
    w.start()
    w.train(26)
    at = w.now + 0.6 * w.step_s
    w.say(at - 0.2, w.rank, "batch holds a sequence of 131072 tokens", level="WARNING")
    w.trace(
        at,
        w.rank,
        STEP,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.{num} GiB. GPU "
        "{local} has a total capacity of 79.15 GiB of which 3.{num} GiB is free.",
        "root",
        "oom",
    )
    w.broken(at, [])
    w.over(at + 15)
    w.truth = Truth("user", "cuda_oom", origin=(w.victim,), **w.at_last())


def one_wrong_mount(w: World) -> None:
    """One machine lacks the data set; its ranks stop before training, the others wait for them."""
    w.start("model_build")
    at = w.now + 2
    for rank in w.of(w.victim):
        w.trace(
            at + w.rng.random(),
            rank,
            ("main", "build_dataset", "open_index"),
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/corpus/train.idx'",
            "root",
            "mount",
        )
    w.waited(at + 600, [w.victim])
    w.over(at + 620)
    w.truth = Truth(
        "user",
        "dataset_missing",
        "launch_failure",
        "model_build",
        origin=(w.victim,),
        also_categories=("platform",),
        also_subcategories=("bad_config", "storage_outage"),
        also_symptoms=("crash",),
        also_stages=("launch",),
    )


def clock_an_hour_off(w: World) -> None:
    """One machine's clock is an hour wrong; another machine has a memory error."""
    w.skew[(w.victim + 1) % len(w.nodes) or 1] = 3607.0
    w.start()
    w.train(24)
    at = w.now + 0.4 * w.step_s
    w.kernel(
        at,
        w.victim,
        "NVRM: Xid (PCI:{pci}:00): 94, pid={pid}, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
        "root",
        "xid",
    )
    w.trace(at + 0.4, w.rank, STEP, "RuntimeError: CUDA error: uncorrectable ECC error encountered", "root", "ecc")
    w.broken(at + 1, [w.victim])
    w.over(at + 18)
    w.truth = Truth("hardware", "gpu_ecc", faulty=(w.victim,), **w.at_last())


def preempted(w: World) -> None:
    """A job of higher priority takes the machines."""
    w.start()
    w.train(30, save_every=10)
    w.launcher(w.now + 1, "job {job} preempted by job 99{num}1 with higher priority", "root", "preempt")
    w.over(w.now + 3, "sending SIGTERM to the workers of job {job}")
    w.truth = Truth("platform", "preemption", also_symptoms=("killed",), **w.at_last())


def spare_steps_in(w: World) -> None:
    """A spare replaces a machine after a fault and training goes on; later another machine is out of memory."""
    w.start()
    w.train(18, save_every=9)
    first = (w.victim % (len(w.nodes) - 1)) + 1 if len(w.nodes) > 2 else 1
    first = first if first != w.victim else w.victim - 1 or len(w.nodes) - 1
    w.kernel(
        w.now + 0.3,
        first,
        "NVRM: Xid (PCI:{pci}:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row "
        "marked for remapping, reset gpu to activate.",
    )
    w.raw(w.now + 1, first * w.per, "RuntimeError: CUDA error: unspecified launch failure")
    w.launcher(w.now + 20, f"replacing {w.nodes[first]} by a spare, restarting workers from the last checkpoint")
    w.now += 60
    w.start()
    w.train(30)
    at = w.now + 0.4 * w.step_s
    w.kernel(
        at,
        w.victim,
        "Out of memory: Killed process {pid} (python3) total-vm:811340220kB, anon-rss:612413220kB, file-rss:0kB",
        "root",
        "oom",
    )
    w.broken(at + 2, [w.victim])
    w.over(at + 20)
    w.truth = Truth(
        "hardware",
        "host_oom",
        faulty=(w.victim,),
        also_categories=("user", "platform"),
        also_subcategories=("host_memory_leak", "process_killed"),
        **w.at_last(),
    )


def healthy(w: World) -> None:
    """Nothing fails."""
    w.start()
    w.train(40, save_every=13)
    w.done()


COURSES: dict[str, tuple[Course, int]] = {
    "slow_node": (slow_node, 0),
    "slow_without_a_word": (slow_without_a_word, 0),
    "flap_that_passes": (flap_that_passes, 0),
    "silent_node": (silent_node, 0),
    "switch_takes_eight": (switch_takes_eight, 24),
    "rack_without_power": (rack_without_power, 18),
    "loader_stuck": (loader_stuck, 0),
    "writer_blocked": (writer_blocked, 0),
    "device_gone_without_xid": (device_gone_without_xid, 0),
    "nan_everywhere": (nan_everywhere, 0),
    "long_sequence": (long_sequence, 0),
    "one_wrong_mount": (one_wrong_mount, 0),
    "clock_an_hour_off": (clock_an_hour_off, 0),
    "preempted": (preempted, 0),
    "spare_steps_in": (spare_steps_in, 0),
    "healthy": (healthy, 0),
}
