"""Courses of events that were held out until their first figures were taken."""

from __future__ import annotations

from lab.exams.courses.courses import LOAD, SAVE, Course
from lab.exams.courses.world import Truth, World


def power_brake(w: World) -> None:
    """The power brake of one machine slows its GPUs; its kernel logs it, the iterations get longer."""
    w.start()
    w.train(26)
    low = w.n
    w.kernel(
        w.now + 0.2,
        w.victim,
        "nvidia-powerd: HW power brake asserted on GPU {pci}, clocks limited to 345 MHz",
        "root",
        "brake",
    )
    w.train(26, slower=1.8)
    w.launcher(w.now + 15, "job {job} stopped by its owner")
    w.truth = Truth(
        "hardware",
        "thermal_slowdown",
        "slow",
        faulty=(w.victim,),
        failed_n=low + 1,
        logged_n=low,
        also_categories=("performance",),
        also_subcategories=("straggler", "slow_step"),
    )


def pause_storm(w: World) -> None:
    """Pause frames everywhere: all machines are slow, none is at fault."""
    w.start()
    w.train(24)
    low = w.n
    for node in range(len(w.nodes)):
        for k in range(4):
            w.kernel(
                w.now + 3 * k + w.rng.random(),
                node,
                "mlx5_core {pci}.0: rx_prio3_pause storm detected, {num}{num} frames in 1 s",
                "root",
                "pause",
            )
    w.train(26, slower=2.0)
    w.truth = Truth(
        "network",
        "rdma_congestion",
        "slow",
        affected=tuple(range(len(w.nodes))),
        failed_n=low + 1,
        logged_n=low,
        also_categories=("performance",),
        also_subcategories=("slow_network", "packet_loss"),
    )


def name_not_found(w: World) -> None:
    """One machine cannot resolve the address of the first; the job does not start."""
    w.start("launch")
    at = w.now + 3
    for k in range(5):
        w.raw(
            at + 20 * k,
            w.rank,
            "[W socket.cpp:{num}] getaddrinfo failed for {first}: Name or service not known (gai error: -2)",
            "root",
            "dns",
        )
    w.trace(
        at + 110,
        w.rank,
        ("main", "init_process_group", "rendezvous"),
        "torch.distributed.DistNetworkError: The client socket has failed to connect to {first}: gai error -2",
        "root",
        "connect",
    )
    for rank in w.ranks([w.victim]):
        w.raw(
            at + 600 + w.rng.random(),
            rank,
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 11/12 clients joined.",
            "secondary",
            "wait",
        )
    w.over(at + 620)
    w.truth = Truth(
        "framework",
        "rendezvous_timeout",
        "launch_failure",
        "rendezvous",
        faulty=(w.victim,),
        also_categories=("network", "platform"),
        also_subcategories=("bad_config", "link_down"),
        also_stages=("launch",),
    )


def client_evicted(w: World) -> None:
    """The file system evicts one machine's client while it reads."""
    w.start()
    w.train(25)
    at = w.now + 0.4 * w.step_s
    w.kernel(
        at - 0.5,
        w.victim,
        "LustreError: 167-0: scratch-MDT0000-mdc-ffff{hex}: This client was evicted by "
        "scratch-MDT0000; in progress operations using this service will fail.",
        "root",
        "evict",
    )
    w.trace(
        at,
        w.rank,
        LOAD,
        "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/scratch/tok/part-{num}.bin'",
        "root",
        "esh",
    )
    w.broken(at, [w.victim])
    w.over(at + 15)
    w.truth = Truth(
        "platform",
        "storage_outage",
        faulty=(w.victim,),
        also_categories=("hardware",),
        also_subcategories=("disk_io", "storage_io"),
        **w.at_last(),
    )


def shared_memory_full(w: World) -> None:
    """Loader workers of one container die on a full /dev/shm."""
    w.start()
    w.train(22)
    at = w.now + 0.5 * w.step_s
    w.raw(
        at,
        w.rank,
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "root",
        "bus",
    )
    w.trace(
        at + 0.5,
        w.rank,
        LOAD,
        "RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Bus error. It is "
        "possible that dataloader's workers are out of shared memory.",
        "root",
        "shm",
    )
    w.broken(at, [])
    w.over(at + 14)
    w.truth = Truth(
        "user",
        "host_memory_leak",
        origin=(w.victim,),
        also_categories=("platform", "framework", "hardware"),
        also_subcategories=("host_oom", "bad_config", "dataloader_hang", "native_crash", "disk_full"),
        **w.at_last(),
    )


def skipped_batch(w: World) -> None:
    """One rank skips a collective that the others enter."""
    w.start()
    w.train(24)
    at = w.now + 600
    for rank in w.ranks():
        op = "ALLGATHER" if rank == w.rank else "ALLREDUCE"
        role = "root" if rank == w.rank else "secondary"
        w.raw(
            at + w.rng.random(),
            rank,
            "[rank{rank}]:[E ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=5518, OpType="
            + op
            + ", NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.",
            role,
            op,
        )
    w.over(at + 20)
    w.truth = Truth(
        "framework",
        "collective_mismatch",
        "hang",
        origin=(w.victim,),
        also_categories=("user",),
        also_symptoms=("crash",),
        also_subcategories=("user_code_exception",),
        **w.at_last(),
    )


def throttled_store(w: World) -> None:
    """The object store throttles for some time; every call finally succeeds."""
    w.start()
    w.train(20)
    for rank in w.ranks():
        w.say(
            w.now + w.rng.random(),
            rank,
            "ERROR s3 PutObject failed: SlowDown: please reduce your request rate (attempt 1), retrying in 4 s",
            level="ERROR",
        )
    w.now += 12
    w.train(30, save_every=10)
    w.done()


def fabric_manager_down(w: World) -> None:
    """The fabric manager of one machine does not run; its GPUs cannot be initialised."""
    w.start("launch")
    at = w.now + 4
    w.kernel(
        at - 3,
        w.victim,
        "nvidia-fabricmanager[{num}{num}]: failed to configure NVSwitch devices, exiting",
        "root",
        "fm",
    )
    for rank in w.of(w.victim):
        w.trace(
            at + w.rng.random(),
            rank,
            ("main", "setup_device"),
            "RuntimeError: CUDA initialization error 802: system not yet initialized",
            "root",
            "e802",
        )
    w.waited(at + 600, [w.victim])
    w.over(at + 620)
    w.truth = Truth(
        "hardware",
        "nvlink_error",
        "launch_failure",
        "launch",
        faulty=(w.victim,),
        also_categories=("platform",),
        also_subcategories=("device_alloc", "gpu_gsp_hang"),
        also_stages=("rendezvous", "model_build"),
    )


def expired_token(w: World) -> None:
    """The credentials for the checkpoint store expire: every rank's upload is refused."""
    w.start()
    w.train(30)
    w.say(w.now + 0.1, w.reporter, w.voice.save[0].replace("{n}", str(w.n)))
    at = w.now + 5
    for rank in w.ranks():
        w.trace(
            at + w.rng.random() * 0.5,
            rank,
            SAVE,
            "ClientError: An error occurred (ExpiredToken) when calling the UploadPart "
            "operation: The provided token has expired.",
            "root",
            "token",
        )
    w.over(at + 12)
    w.truth = Truth(
        "platform",
        "storage_outage",
        "crash",
        "checkpoint_save",
        affected=tuple(range(len(w.nodes))),
        failed_n=w.n,
        logged_n=w.told_n,
        also_categories=("user",),
        also_subcategories=("storage_quota", "bad_config", "storage_io", "user_code_exception"),
    )


def owner_cancels(w: World) -> None:
    """Somebody cancels a job that ran well."""
    w.start()
    w.train(32, save_every=16)
    w.launcher(w.now + 2, "job {job} cancelled by user m.keller via web console", "root", "cancel")
    w.over(w.now + 4, "stopping all workers of job {job}")
    w.truth = Truth("platform", "cancelled", also_symptoms=("killed",), **w.at_last())


def out_of_time(w: World) -> None:
    """The job reaches its time limit."""
    w.start()
    w.train(34, save_every=17)
    w.launcher(w.now + 2, "job {job} reached its wall time limit of 24:00:00, terminating", "root", "limit")
    w.over(w.now + 4, "stopping all workers of job {job}")
    w.truth = Truth("platform", "time_limit", also_symptoms=("killed", "timeout"), **w.at_last())


def native_fault(w: World) -> None:
    """One rank dies in native code."""
    w.start()
    w.train(23)
    at = w.now + 0.5 * w.step_s
    w.raw(at, w.rank, "Fatal Python error: Segmentation fault", "root", "segv")
    w.raw(at + 0.1, w.rank, "Current thread 0x00007f{hex} (most recent call first):", "context", "segv")
    w.raw(at + 0.1, w.rank, '  File "/srv/app/fused_rope.py", line 88 in forward', "context", "segv")
    w.broken(at + 1, [w.victim])
    w.over(at + 15)
    w.truth = Truth(
        "user",
        "native_crash",
        origin=(w.victim,),
        also_categories=("framework", "hardware"),
        also_subcategories=("process_killed", "user_code_exception"),
        **w.at_last(),
    )


def machine_reboots(w: World) -> None:
    """A machine reboots by itself: its program is gone, its kernel logs the next boot two minutes later."""
    w.start()
    w.train(25)
    at = w.now + 0.5 * w.step_s
    w.silence(w.victim, at)
    w.lines = [x for x in w.lines if x.stream != "kernel" or x.node != w.victim or x.at <= at]
    w.kernel(at + 150, w.victim, "Linux version 5.15.0-1064 (buildd@lcy02) #70-Ubuntu SMP", "root", "boot")
    w.kernel(at + 151, w.victim, "Command line: BOOT_IMAGE=/vmlinuz root=/dev/md0 ro", "", "")
    w.broken(at + 20, [w.victim])
    w.over(at + 40)
    w.truth = Truth(
        "hardware",
        "node_lost",
        faulty=(w.victim,),
        also_subcategories=("kernel_panic",),
        also_symptoms=("hang",),
        **w.at_last(),
    )


def drained(w: World) -> None:
    """A health check takes a machine out of service under a running job."""
    w.start()
    w.train(28)
    at = w.now + 0.5 * w.step_s
    w.launcher(
        at, "health check failed on {bad}: PCIe replay count 1{num}4 above limit, draining node", "root", "drain"
    )
    w.silence(w.victim, at + 5)
    w.broken(at + 8, [w.victim])
    w.over(at + 20)
    w.truth = Truth(
        "hardware",
        "pcie_aer",
        faulty=(w.victim,),
        also_categories=("platform",),
        also_subcategories=("node_lost", "scheduler"),
        **w.at_last(),
    )


HELD: dict[str, tuple[Course, int]] = {
    "power_brake": (power_brake, 0),
    "pause_storm": (pause_storm, 0),
    "name_not_found": (name_not_found, 0),
    "client_evicted": (client_evicted, 0),
    "shared_memory_full": (shared_memory_full, 0),
    "skipped_batch": (skipped_batch, 0),
    "throttled_store": (throttled_store, 0),
    "fabric_manager_down": (fabric_manager_down, 0),
    "expired_token": (expired_token, 0),
    "owner_cancels": (owner_cancels, 0),
    "out_of_time": (out_of_time, 0),
    "native_fault": (native_fault, 0),
    "machine_reboots": (machine_reboots, 0),
    "drained": (drained, 0),
}
