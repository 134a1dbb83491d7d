"""Courses in which an accelerator is at fault."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, Case
from lab.exams.sealed.third import peers
from lab.exams.sealed.third.courses.base import ALL, NVIDIA, Found, bus, device_error, kernel, quiet, run

FOUND = Found()


@FOUND.course(NVIDIA)
def fell_out_of_its_slot(c: Case) -> None:
    run(c)
    c.mark()
    kernel(
        c,
        (
            f"NVRM: Xid (PCI:{bus(c)}): 79, pid={c.pids[c.vr]}, name=python3, GPU has fallen off the bus.",
            f" NVRM: GPU {bus(c)}.0: GPU serial number is 165{c.dialect:07d}.",
            f"NVRM: Xid (PCI:{bus(c)}): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        ),
    )
    device_error(c, "torch.AcceleratorError: CUDA error: unspecified launch failure")
    peers.fall(c, 1)
    c.blame("hardware/gpu_off_bus", "crash", "training", [c.v])


@FOUND.course(NVIDIA)
def cells_of_hbm(c: Case) -> None:
    """Uncontained memory error; the spare rows are used."""
    run(c)
    c.mark()
    kernel(
        c,
        (
            f"NVRM: Xid (PCI:{bus(c)}): 95, pid={c.pids[c.vr]}, name=python3, Uncontained: FBHUB. RST: No, D-RST: Yes",
            f"NVRM: Xid (PCI:{bus(c)}): 64, pid='<unknown>', name=<unknown>, Row Remapper Error: Attempting to remap a "
            "row that failed to remap before",
        ),
    )
    device_error(c, "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")
    peers.fall(c, -6)
    c.blame("hardware/gpu_ecc", "crash", "training", [c.v])


@FOUND.course(NVIDIA)
def lanes_inside_the_box(c: Case) -> None:
    run(c)
    c.mark()
    link = c.dialect % 18
    kernel(
        c,
        (
            f"NVRM: Xid (PCI:{bus(c)}): 149, NETIR_LINK_EVT Fatal XC0 i0 Link {link:02d} (0x001a4cc6 0x00000000)",
            f"NVRM: Xid (PCI:{bus(c)}): 145, RLW_REMAP Nonfatal XC0 i0 Link {link:02d} (0x00000004 0x80000000)",
            f"nvidia-nvswitch2: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link {link + 30} LTSSM Fault Up",
        ),
    )
    device_error(
        c, "torch.AcceleratorError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error"
    )
    peers.fall(c, 1)
    c.blame("hardware/nvlink_error", "crash", "training", [c.v])


@FOUND.course(NVIDIA)
def no_reply_from_firmware(c: Case) -> None:
    """The GPU's firmware does not reply; the rank stands still until the others give up."""
    run(c)
    c.mark()
    for k in range(c.rng.randint(2, 5)):
        c.kern(
            c.v,
            f"NVRM: Xid (PCI:{bus(c)}): 119, pid={c.pids[c.vr]}, name=python3, Timeout after {6 + 39 * (k > 0)}s of "
            "waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20800a4c 0x8).",
            ROOT,
            "rpc",
            45 * k,
        )
    c.kern(c.v, "NVRM: _issueRpcAndWait: rpcRecvPoll timedout for fn 76!", CONTEXT, "", 6)
    peers.stuck(c)
    c.blame("hardware/gpu_gsp_hang", "hang crash", "training", [c.v])


@FOUND.course(NVIDIA)
def page_not_mapped(c: Case) -> None:
    """One device faults on an address; code and hardware both can cause that."""
    run(c)
    c.mark()
    kernel(
        c,
        (
            f"NVRM: Xid (PCI:{bus(c)}): 31, pid={c.pids[c.vr]}, name=python3, channel 0x00000012, intr 00000000. MMU "
            "Fault: ENGINE GRAPHICS GPC3 GPCCLIENT_T1_7 faulted @ 0x7f2a_9c000000. Fault is of type FAULT_PDE "
            "ACCESS_TYPE_VIRT_READ",
        ),
    )
    c.trace(c.vr, ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered",), ROOT, "il", "step")
    peers.fall(c, 1)
    c.blame("hardware/gpu_kernel", "crash", "training", [c.v], also="user/user_code_exception user/native_crash")


@FOUND.course(("flux_rocm",))
def memory_controller_of_an_apu(c: Case) -> None:
    run(c)
    c.mark()
    kernel(
        c,
        (
            f"amdgpu {bus(c)}.0: amdgpu: {{{c.dialect}}}[Hardware Error]: hardware error logged by umc",
            f"amdgpu {bus(c)}.0: amdgpu: socket: {c.vr % 4}, die: 0 1 uncorrectable errors detected in umc block",
            f" amdgpu {bus(c)}.0: amdgpu: GPU reset begin!. Source: 4",
        ),
    )
    c.raw(c.vr, "HW Exception by GPU node-2 (Agent handle: 0x55d0a0) reason :ECC error", "secondary", "hsa", 0.8)
    peers.fall(c, -6)
    c.blame("hardware/gpu_ecc", "crash", "training", [c.v])


@FOUND.course(("flux_rocm",))
def ring_of_an_apu(c: Case) -> None:
    """A compute queue hangs and the driver resets the device."""
    run(c)
    c.mark()
    kernel(
        c,
        (
            f"amdgpu {bus(c)}.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
            f"amdgpu {bus(c)}.0: amdgpu: failed to remove hardware queue from MES, doorbell=0x1a02",
            f" amdgpu {bus(c)}.0: amdgpu: GPU reset begin!. Source: 3",
        ),
    )
    device_error(c, "torch.AcceleratorError: HIP error: unspecified launch failure", 3)
    peers.fall(c, -6)
    c.blame("hardware/gpu_kernel", "crash hang", "training", [c.v], also="hardware/gpu_gsp_hang")


@FOUND.course(("factory_mlu",))
def card_reports_a_fault(c: Case) -> None:
    run(c)
    c.mark()
    card, (t, us) = c.vr % c.per, c.stamp(c.v)
    kernel(
        c,
        (
            f"cambricon: [cndrv_mcu_heartbeat 412] card {card}: IPU cluster 2 exception, status 0x{c.dialect:08x}",
            f"cambricon: [cndrv_dev_err 97] card {card}: device enters error state, all queues are frozen",
        ),
    )
    text = f"[{c.pids[c.vr]}] [Card: {card}] Error occurred in cnrtQueueSync during calling driver interface."
    c.raw(c.vr, f"{t.both}.{us:06d}: [cnrtError] {text}", ROOT, "cnrt", 0.7)
    c.raw(
        c.vr, f"{t.both}.{us:06d}: [cnrtError] [{c.pids[c.vr]}] [Card: {card}] Return value is 100124", CONTEXT, "", 0.7
    )
    peers.fall(c, 1)
    c.blame("hardware/npu_error", "crash", "training", [c.v])


@FOUND.course(("paxml",))
def core_halted_unexpectedly(c: Case) -> None:
    run(c)
    c.mark()
    t, us = c.stamp(c.v)
    head = f"E{t.mmdd} {t.time}.{us:06d} {c.pids[c.vr]:7d}"
    c.raw(c.vr, f"{head} tpu_driver_health.cc:208] TPU{c.vr % 4}: HBM uncorrectable error", ROOT, "hbm")
    c.raw(c.vr, f"{head} pjrt_tpu.cc:133] INTERNAL: core on chip {c.vr % 4} halted unexpectedly", ROOT, "halt", 0.3)
    c.trace(
        c.vr, ("jax.errors.JaxRuntimeError: INTERNAL: program aborted on a halted core",), "secondary", "jre", dt=0.6
    )
    peers.fall(c, 1)
    c.blame("hardware/npu_error", "crash", "training", [c.v], also="hardware/gpu_ecc")


@FOUND.course(("pbs_xpu",))
def engine_reset_on_a_tile(c: Case) -> None:
    run(c)
    c.mark()
    kernel(
        c,
        (
            f"i915 {bus(c)}.0: [drm] GPU HANG: ecode 12:1:85def5fa, in python [{c.pids[c.vr]}]",
            f"i915 {bus(c)}.0: [drm] GT1: Resetting chip for GuC failed to reset engine mask=0x4000",
            f" i915 {bus(c)}.0: [drm] python[{c.pids[c.vr]}] context reset due to GPU hang",
        ),
    )
    device_error(c, "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")
    peers.fall(c, 1)
    c.blame("hardware/gpu_kernel", "crash", "training", [c.v], also="hardware/gpu_gsp_hang hardware/npu_error")


@FOUND.course(ALL)
def one_replica_computes_otherwise(c: Case) -> None:
    """A repeated computation differs on one rank alone; the loss begins to rise."""
    run(c)
    c.mark()
    for k in range(3):
        c.log(
            0,
            f"replay audit at {c.n}: digest of rank {c.vr} on {c.victim} is {0x5A000000 + c.pids[c.vr] + k:08x}, that "
            f"batch gave {c.pids[0]:08x} on all {c.world - 1} others",
            "E",
            ROOT,
            "digest",
            dt=9 * k,
        )
    c.wait(30)
    c.trace(0, ("AuditError: results are not reproducible, training is halted",), "secondary", "audit", "step")
    c.died(0, 1)
    c.closed("fail")
    c.blame("hardware/silent_data_corruption", "crash", "training", [c.v])


@FOUND.course((*NVIDIA, "flux_rocm", "moteur"))
def warm_water(c: Case) -> None:
    """The coolant of one machine is too warm: its clocks fall, and everybody waits for it."""
    run(c, 15, 30)
    c.mark()
    for k in range(c.rng.randint(4, 8)):
        c.unit(
            c.v,
            "bmc-relay[644]",
            f"SEL: Coolant Inlet Temp upper critical going high, reading {47 + k} > threshold 45 degrees C",
            ROOT,
            "sel",
        )
        c.unit(
            c.v,
            "gpuwatch[655]",
            f"gpu {c.vr % c.per} clock {1980 - 170 * k} MHz, throttle reason HW thermal",
            ROOT,
            "gw",
            2,
        )
        c.train(3, 6, 1.4 + 0.1 * k)
    quiet(c)
    if c.rng.random() < 0.5:
        c.closed("cancel", CONTEXT)
    c.blame("hardware/thermal_slowdown", "slow", "training", [c.v], also="performance/straggler")
