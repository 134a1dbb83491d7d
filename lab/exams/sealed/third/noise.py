"""Lines that mean nothing: programs (a level, a space, the text), kernels and services; {a} {b} are numbers."""

from __future__ import annotations

IDLE: dict[str, tuple[str, ...]] = {
    "any": (
        "I tokens in buffer: {b}k, refill in {a} ms",
        "W psutil could not read the io counters, column left empty",
        "D pinned arena {a}% used",
        "W event writer queue has {b} entries, flush postponed",
        "I host memory {a} GiB of 2015 GiB in use",
        "W Connection pool is full, discarding connection: artifacts.local. Connection pool size: {a}",
        "D feed {a}: shard {b} opened",
        "W trace upload failed with status 502, {a} spans dropped, will resume",
        "I lr schedule: cosine, {b} steps to the next floor",
    ),
    "nccl": ("I cudaMallocAsync pool high water {a}.7 GiB", "W torch.compile: {a} graph breaks, cache limit not hit"),
    "rccl": ("I hipblaslt: {b} heuristics from cache", "W rocm_smi: power cap not readable on partition {a}"),
    "cncl": ("I MLU memory pool: reserved {a} GiB", "W CNNL: deprecated attribute 'layout_{a}' is ignored"),
    "oneccl": ("W |CCL_WARN| topology recognition shows PCIe connection between devices", "D ze pool {a}/{b}"),
    "tpu": ("I megascale: {b} transfers, p99 {a} ms", "W Persistent compilation cache miss for 'jit_aux_{a}'"),
    "ucx": ("I anneau: {a} tampons libres sur {b}", "W mesure de puissance absente pendant {a} s"),
}

KERNEL: dict[str, tuple[str, ...]] = {
    "any": (
        "clocksource: Long readout interval, skipping watchdog check: cs_nsec: 15{b}43",
        "process 'usr/bin/exporter' launched with NULL argv: empty string added",
        "e1000e 0000:00:1f.6 mgmt0: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: None",
        'audit: type=1400 audit(17{b}.{a}:31): apparmor="DENIED" operation="open" name="/proc/{b}/stat"',
        "EXT4-fs (nvme3n1p1): re-mounted 5f3e-{b} r/w. Quota mode: none.",
        "Spectre V2 : WARNING: Unprivileged eBPF is enabled, data leaks possible",
        "usb 1-{a}: device descriptor read/64, error -110",
        "ACPI Error: AE_NOT_FOUND, Evaluating _PMC (20230628/power_meter-755)",
        "curl[{b}]: segfault at 8 ip 0000{b} sp 0000{b} error 4 in libcurl.so.4.8.0",
    ),
    "nvidia": (
        "nvidia-uvm: Loaded the UVM driver, major device number 50{a}.",
        "NVRM: loading NVIDIA UNIX Open Kernel",
    ),
    "amd": ("amdgpu: 0000:0{a}:00.0: SMU is resumed successfully!", "kfd kfd: amdgpu: added device 1002:74a{a}"),
    "mlu": ("cambricon: [cnhost_card_info {b}] card {a} mode normal",),
    "intel": ("i915 0000:1{a}:00.0: [drm] GT0: HuC: authenticated for all workloads",),
    "google": ("gve 0000:00:0{a}.0: rx ring {b} refilled",),
}

SERVICES = (
    ("NetworkManager[811]", "device (mgmt0): state change: config -> ip-config (reason 'none')"),
    ("crond[2207]", "(root) CMDEND (run-parts /etc/cron.hourly) exit {a}"),
    ("auditd[702]", "Audit daemon is low on disk space for logging, {b} MiB left"),
    ("telegraf[3010]", "E! [inputs.ipmi_sensor] Error in plugin: timed out after {a}s"),
    ("sssd[1520]", "Backend is offline; Backend is online again after {a} s"),
    ("systemd[1]", "fwupd-refresh.service: Main process exited, code=exited, status=1/FAILURE"),
)
