"""Courses in which an accelerator or what joins accelerators is at fault."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.second import peers
from lab.exams.sealed.second.courses.base import CUDA, Found, bdf, quiet, ranks_of, start, stop_or_copy

FOUND = Found()


@FOUND.course(CUDA)
def gpu_gone(c: Case) -> None:
    start(c)
    c.mark()
    at, pid = bdf(c, c.vr), c.pids[c.vr]
    if c.rng.random() < 0.5:
        c.kern(c.v, f"pcieport {at[:-3]}:01.0: pciehp: Slot({c.dialect}): Link Down", ROOT, "slot", -0.4)
    c.kern(c.v, f"NVRM: Xid (PCI:{at}): 79, pid={pid}, name=python3, GPU has fallen off the bus.", ROOT, "xid")
    c.kern(c.v, f"NVRM: GPU {at}.0: GPU has fallen off the bus.", ROOT, "off", 0.001)
    c.kern(c.v, "NVRM: A GPU crash dump has been created. If possible, please run", CONTEXT, "", 0.002)
    c.kern(c.v, "NVRM: nvidia-bug-report.sh as root to collect this data before", CONTEXT, "", 0.003)
    c.wait(2, 8)
    c.trace(
        c.vr,
        (
            "RuntimeError: CUDA error: unknown error",
            "CUDA kernel errors might be asynchronously reported at some other",
        ),
        SECOND,
        "unknown",
        "backward",
    )
    c.blame("hardware/gpu_off_bus", "crash", "training", [c.v])
    peers.fall(c)


@FOUND.course(CUDA)
def bad_memory_bank(c: Case) -> None:
    """Uncorrectable memory errors, contained to one process; rows wait for a reset."""
    start(c)
    c.mark()
    at, pid = bdf(c, c.vr), c.pids[c.vr]
    if c.rng.random() < 0.5:
        c.kern(
            c.v,
            f"NVRM: Xid (PCI:{at}): 63, pid='<unknown>', name=<unknown>, Row Remapper: New "
            "row marked for remapping, "
            "reset gpu to activate.",
            ROOT,
            "xid63",
            -0.2,
        )
    c.kern(
        c.v,
        f"NVRM: Xid (PCI:{at}): 94, pid={pid}, name=python3, Contained: HBM "
        f"(0x{c.dialect % 16:x},0x{pid % 8}). RST: No, "
        "D-RST: Yes",
        ROOT,
        "xid94",
    )
    c.wait(0.2, 1.5)
    c.trace(
        c.vr,
        (
            "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        ),
        ROOT,
        "ecc",
        "backward",
    )
    c.blame("hardware/gpu_ecc", "crash", "training", [c.v])
    peers.fall(c)


@FOUND.course(CUDA)
def ecc_told_by_the_program_alone(c: Case) -> None:
    """No kernel log was kept; the error repeats on the same machine after a restart."""
    c.ready()
    c.train(14, 50, save=9)
    for attempt in range(2):
        c.mark()
        role = ROOT if attempt else CONTEXT
        c.trace(
            c.vr, ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",), role, "ecc", "backward"
        )
        c.died(c.vr, 1, SECOND if attempt else CONTEXT)
        c.dead.add(c.vr)
        c.wait(1, 4)
        peers.broken(c, c.some(c.peers(), 3, 12), SECOND if attempt else CONTEXT)
        if not attempt:
            c.again()
            c.ready()
            c.train(12, 40)
    c.blame("hardware/gpu_ecc", "crash", "training", [c.v])
    c.closed("fail")


@FOUND.course(CUDA)
def gsp_rpc_timeout(c: Case) -> None:
    """The system processor of a GPU answers nobody: that machine falls silent, all wait for it."""
    start(c)
    c.mark()
    at = bdf(c, c.vr)
    for k, number in enumerate((76, 103, 10)):
        c.kern(
            c.v,
            f"NVRM: Xid (PCI:{at}): 119, pid={c.pids[c.vr]}, name=python3, Timeout after "
            f"{6 + 39 * (k > 0)}s of waiting for "
            f"RPC response from GPU{c.vr % c.per} GSP! Expected function {number} "
            f"(0x{number:x} 0x0).",
            ROOT,
            "xid119",
            6 + 45 * k,
        )
    others = [r for r in c.peers() if c.rng.random() < 0.5]
    peers.timeout(c, others)
    c.kern(c.v, f"INFO: task python3:{c.pids[c.vr]} blocked for more than 122 seconds.", SECOND, "blocked", -40)
    c.wait(4, 9)
    c.died(others[0] if others else 0, -6)
    c.closed("fail")
    c.blame("hardware/gpu_gsp_hang", "hang crash", "training", [c.v])


@FOUND.course(CUDA)
def link_between_gpus(c: Case) -> None:
    start(c)
    c.mark()
    at = bdf(c, c.vr)
    for k in range(c.rng.randint(1, 4)):
        c.kern(
            c.v,
            f"NVRM: Xid (PCI:{at}): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error "
            f"detected on link {3 + k}"
            f"(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            ROOT,
            "xid74",
            k * 0.05,
        )
    c.wait(0.5, 3)
    for r in c.some(ranks_of(c, c.v), 1, 3):
        c.trace(
            r,
            (
                "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2133, "
                "unhandled cuda error, NCCL version 2.23.4",
                "ncclUnhandledCudaError: Call to CUDA function failed.",
                "Last error: Cuda failure 'unspecified launch failure'",
            ),
            SECOND,
            "unhandled",
            "reduce",
        )
    c.blame("hardware/nvlink_error", "crash", "training", [c.v])
    peers.fall(c)


@FOUND.course(("lingua", "smp_hyperpod", "clipper", "yunke", "tessera"))
def fabric_not_up(c: Case) -> None:
    """One machine's switches between the GPUs were not brought up: its processes find no usable device."""
    c.voice.launched(c)
    c.unit(
        c.v,
        "nv-fabricmanager[2211]",
        "failed to initialize all the required NVSwitch ports: NVSwitch pci bus id "
        "00000000:0a:00.0 "
        "physical id 2 port 37 is in contain error state",
        ROOT,
        "nvswitch",
        -40,
    )
    c.unit(c.v, "systemd[1]", "nvidia-fabricmanager.service: Failed with result 'exit-code'.", ROOT, "unit", -39)
    for k in range(len(c.nodes)):
        if k != c.v:
            c.log(
                k * c.per,
                f"rank {k * c.per} on {c.nodes[k]} ({c.ips[k]}): devices ok, waiting for peers",
                dt=c.rng.random(),
            )
    for r in ranks_of(c, c.v):
        c.trace(
            r,
            ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",),
            ROOT,
            "e802",
            "device",
            c.rng.random(),
        )
    c.wait(2, 5)
    quiet(c, 0.2)
    c.died(c.vr, 1)
    c.wait(2, 5)
    peers.ended(c, [r for r in c.firsts() if c.node(r) != c.v])
    c.closed("fail")
    c.blame(
        "hardware/nvlink_error", "launch_failure", "model_build launch rendezvous", [c.v], also="platform/device_alloc"
    )


@FOUND.course(("lingua", "tessera", "smp_hyperpod", "yunke"))
def replicas_disagree(c: Case) -> None:
    """A check of the replicas' parameters finds one machine that computes otherwise; no device reports an error."""
    start(c, 20, 60)
    good, r = f"{c.rng.getrandbits(64):016x}", c.vr
    for _ in range(2):
        c.log(
            0,
            f"replica check step {c.n}: parameter digest {c.rng.getrandbits(64):016x} equal on "
            f"{c.world} of {c.world} ranks",
        )
        c.train(4, 9)
    c.mark()
    bad = f"{c.rng.getrandbits(64):016x}"
    c.log(
        0,
        f"replica check: parameter digest differs on 1 of {c.world} ranks: rank {r} ({c.victim}) "
        f"has {bad}, all others {good}",
        "E",
        ROOT,
        "digest",
    )
    c.log(
        r,
        f"replaying the last micro-batch on this device: gradient digest {bad[:8]} then {good[:8]}, not reproducible",
        "W",
        ROOT,
        "replay",
        2,
    )
    for k in ranks_of(c, c.w)[:2]:
        c.log(
            k, f"replaying the last micro-batch on this device: gradient digest {good[:8]} twice, reproducible", dt=2.1
        )
    c.wait(3, 6)
    for k in c.firsts():
        c.log(k, "stopping: replicas are not consistent, state is not saved", "E", SECOND, "stop", c.rng.random())
    c.wait(2, 4)
    c.died(0, 1)
    c.closed("fail")
    c.blame("hardware/silent_data_corruption", "crash", "training", [c.v])


@FOUND.course(("xtuner_npu",))
def ascend_memory(c: Case) -> None:
    start(c)
    c.mark()
    d, pid, (t, us) = c.vr % c.per, c.pids[c.vr], c.stamp(c.v)
    at = f"{t.date}-{t.time}.{us // 1000:03d}.{us % 1000:03d}"
    plog = f"plog/{c.victim}/plog-{pid}_{t.date.replace('-', '')}.log"
    c.kern(
        c.v,
        f"[ascend] [drv_hbm] dev_id: {d}, multi-bit ECC error, HBM page is isolated, addr "
        f"0x{c.rng.getrandbits(36):09x}",
        ROOT,
        "hbm",
    )
    c.add(
        plog,
        f"[ERROR] RUNTIME({pid},python3):{at} [device_error_proc.cc:1183]{pid} ProcessDeviceErrorInfo: "
        f"uncorrectable memory error (UCE), device_id={d}, error code=0x80e01801",
        ROOT,
        "uce",
        0.1,
    )
    c.add(
        plog,
        f"[ERROR] RUNTIME({pid},python3):{at} [davinic_kernel_task.cc:1198]{pid} "
        "PrintErrorInfoForDavinciTask:[FINAL][FINAL]"
        f"Aicore kernel execute failed, device_id={d}, stream_id=2, report_stream_id=2, "
        f"task_id={c.n % 65000}",
        SECOND,
        "aicore",
        0.2,
    )
    c.trace(
        c.vr,
        (
            "RuntimeError: ACL stream synchronize failed, error code:507053",
            f"[ERROR] {t.date}-{t.time} (PID:{pid}, Device:{d}, "
            f"RankID:{c.vr}) ERR00100 PTA call acl api failed: HBM MULTI BIT ECC ERROR",
        ),
        ROOT,
        "507053",
        "backward",
        0.4,
    )
    c.blame("hardware/npu_error", "crash", "training", [c.v], also="hardware/gpu_ecc")
    peers.fall(c)


@FOUND.course(("axlearn",))
def tpu_halts(c: Case) -> None:
    start(c)
    c.mark()
    t, us = c.stamp(c.v)
    for k in range(2):
        c.raw(
            c.v * c.per,
            f"E{t.mmdd} {t.time}.{us:06d} {c.pids[c.v * c.per]} "
            f"tpu_driver_error.cc:{280 + k}] INTERNAL: chip {c.vr % 4}: HBM "
            "uncorrectable "
            f"error at channel {c.dialect % 16}, core is halted",
            ROOT,
            "chip",
            0.1 * k,
        )
    c.trace(
        c.v * c.per,
        ("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: TPU core halted unexpectedly, see the driver's log",),
        SECOND,
        "halt",
        "step",
        0.5,
    )
    c.wait(2, 5)
    c.died(c.v * c.per, 1)
    c.gone.add(c.v)
    peers.broken(c, [k * c.per for k in range(len(c.nodes)) if k != c.v], over=20)
    c.wait(20, 30)
    c.closed("fail")
    c.blame("hardware/npu_error", "crash", "training", [c.v], also="hardware/gpu_ecc")


@FOUND.course(("primus",))
def poison_on_instinct(c: Case) -> None:
    start(c)
    c.mark()
    at = f"{bdf(c, c.vr)}.0"
    c.kern(
        c.v,
        f"amdgpu {at}: amdgpu: {{{c.dialect % 60}}}1 uncorrectable hardware errors detected in umc block",
        ROOT,
        "umc",
    )
    c.kern(
        c.v,
        f"amdgpu {at}: amdgpu: {{{c.dialect % 60}}}socket: {c.vr % c.per}, die: 3 new "
        "uncorrectable hardware errors detected in umc block",
        ROOT,
        "umc2",
        0.01,
    )
    c.kern(
        c.v,
        f"amdgpu {at}: amdgpu: RAS poison consumption, unmap queue flow succeeded: client id 27",
        ROOT,
        "poison",
        0.1,
    )
    c.kern(c.v, f"amdgpu {at}: amdgpu: GPU reset begin!", SECOND, "reset", 0.2)
    c.wait(0.5, 2)
    c.raw(
        c.vr,
        f":0:rocdevice.cpp            :3018: {c.dialect}1234567 us: [pid:{c.pids[c.vr]} tid: "
        "0x7f31] Callback: Queue 0x7ed1 aborting with "
        "error : HSA_STATUS_ERROR_MEMORY_FAULT: Agent attempted to access an inaccessible "
        "address. code: 0x2b",
        SECOND,
        "hsa",
    )
    c.blame("hardware/gpu_ecc", "crash", "training", [c.v])
    peers.fall(c, -6)


@FOUND.course(("lingua", "clipper", "yunke", "tessera"))
def fan_failed(c: Case) -> None:
    """A machine clocks its GPUs down for heat; the job goes on, slower, until somebody stops it."""
    start(c, 40, 80)
    c.mark()
    c.unit(
        c.v,
        "bmc-relay[811]",
        "SEL: Fan 7B | Lower Critical going low | Asserted | reading 0 RPM",
        ROOT,
        "fan",
        -c.took,
    )
    for k in range(c.rng.randint(4, 9)):
        for g in range(0, c.per, 2):
            t, _ = c.stamp(c.v)
            clocks = 1650 - 60 * k - 45 * g
            text = (
                f"{t.iso}Z host={c.victim} gpu={g} sm_clock_mhz={max(clocks, 690)} temp_c={84 + k} "
                "throttle_reasons=hw_thermal_slowdown"
            )
            c.add("sidecar/dcgm-watch.log", text, ROOT, "throttle", 0.1 * g)
        for node in c.some([n for n in range(len(c.nodes)) if n != c.v], 2, 5):
            t, _ = c.stamp(node)
            text = (
                f"{t.iso}Z host={c.nodes[node]} gpu={k % c.per} sm_clock_mhz=1980 temp_c={58 + k} throttle_reasons=none"
            )
            c.add("sidecar/dcgm-watch.log", text, dt=0.5)
        c.train(3, 8, 1.5 + 0.1 * k)
    stop_or_copy(c)
    c.blame("hardware/thermal_slowdown", "slow", "training", [c.v], also="performance/straggler")
