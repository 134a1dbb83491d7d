"""Lines that mean nothing: a level, a space and the text; {a} {b} numbers, {n} the iteration, {r} a rank, {host}."""

from __future__ import annotations

CHATTER: dict[str, tuple[str, ...]] = {
    "any": (
        "D prefetch queue depth {a}/128",
        "I gc: collected {b} objects in 0.0{a}s",
        "W metrics push to gateway took {a}.1s, dropping {a} samples",
        "I heartbeat ok, lag {a} ms",
        "W slow write of the event file: {b} ms",
        "W could not read power draw on this interval, using the last value",
        "I rotating local log, {b} KiB so far",
        "W retrying POST to tracking server (attempt 1/5): HTTPSConnectionPool(host='mlflow.int', "
        "port=443): Read timed out",
        "I tracking server reachable again after 1 retry",
        "D shard cache: {b} hits, {a} misses, 0 errors",
    ),
    "nccl": (
        "W expandable_segments is on, memory history is approximate",
        "I reserved {a} GiB, allocated {a}.3 GiB, 0 allocation retries",
        "W [W ProcessGroupNCCL.cpp:4115] using GPU {a} to perform barrier; rank-to-GPU mapping assumed",
        "D cuda graphs: {a} captured, 0 failed",
    ),
    "efa": (
        "I NET/OFI Using transport protocol SENDRECV for small messages",
        "I reserved {a} GiB, allocated {a}.3 GiB, 0 allocation retries",
        "D smp: offload buffer pool {a}/{b} in use",
    ),
    "jax": (
        "W Profiler server not started: port {b} already in use, skipping",
        "I tensorstore cache: {b} MiB, {a} evictions",
        "W Compilation cache miss for jit_eval_step; compiling (took {a}.2s)",
        "I goodput {a}.4% badput unattributed 0.3%",
    ),
    "hccl": (
        "W [W compiler_depend.ts:335] Warning: Cannot create tensor with internal format while "
        "allow_internel_format=False",
        "W AOE tiling database not found for soc, default tiling is used ({a} kernels)",
        "I HBM in use {a} GiB of 64 GiB",
        "W EH9999-like codes are filtered in this log level, errors {a} suppressed: 0",
    ),
    "rccl": (
        "W MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx942_304.kdb Performance may degrade",
        "I hipBLASLt: {a} solutions tuned, fallback for {a}",
        "I reserved {a} GiB, allocated {a}.9 GiB, 0 allocation retries",
    ),
    "paddle": (
        "W The parameter `shard_overlap` is ignored on this device",
        "I memory_allocated {a}GB, max_memory_reserved {a}GB",
        "W cinn: {a} subgraphs fall back to the eager kernels",
    ),
    "mpi": (
        "W fork() was called after MPI_Init by the data process {b}; this is known to be fine here",
        "I host staging pool: {a} of {b} buffers used",
    ),
}

#: Ordinary words of kernels.
KERNEL: dict[str, tuple[str, ...]] = {
    "any": (
        "perf: interrupt took too long ({b} > {b}), lowering kernel.perf_event_max_sample_rate to {a}000",
        "TCP: eth0: Driver has suspect GRO implementation, TCP performance may be compromised.",
        "hrtimer: interrupt took {b} ns",
        "systemd-journald[{b}]: Time jumped backwards, rotating.",
        "overlayfs: fs on '/var/lib/containerd/{b}' does not support file handles, falling back to xino=off.",
        "cgroup: fork rejected by pids controller in /system.slice/cron.service",
        "audit: backlog limit exceeded: {b} suppressed",
        "nfs: server nas-home not responding, still trying\nnfs: server nas-home OK",
        "conftest[{b}]: segfault at 0 ip 00007f3a{b} sp 00007ffd{b} error 4 in libm.so.6[7f3a{b}+{b}000]",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 "
        "page:0x{b} offset:0x{a}0)",
        "ipmi_si IPI0001:00: KCS in invalid state 9",
        "workqueue: drm_fb_helper_damage_work hogged CPU for >10000us {a} times, consider switching to WQ_UNBOUND",
    ),
    "nvidia": (
        "NVRM: GPU 0000:0{a}:00.0: clocks are locked by the application profile {b}",
        "nvidia_peermem: module is already registered with ib_core",
        "NVRM: GPU 0000:0{a}:00.0: persistence mode is already enabled",
        "mlx5_core 0000:1{a}:00.0: Port module event: module 0, Cable plugged",
    ),
    "amd": (
        "amdgpu 0000:{a}:00.0: amdgpu: PCIE GPU atomics supported, large BAR in use",
        "amdgpu: SMU: message 0x3d is not supported by this firmware, ignored",
    ),
    "ascend": (
        "[ascend] [drv_pcie] [devdrv_msg_chan_init {b}] dev_id: {a} chan is already initialised",
        "[ascend] [drv_davinci] [prof_drv_start] <python:{b}> profile channel idle",
    ),
    "google": ("vfio-pci 0000:00:0{a}.0: enabling device (0000 -> 0002)", "gve 0000:00:0{a}.0: Device link is up."),
}
