"""Courses: accelerators, their memory, links and ports fail."""

from __future__ import annotations

from lab.exams.clusters.voices import NVIDIA, TORCH
from lab.exams.clusters.world import Entry, Fresh
from lab.exams.courses.world import Truth


def fabric_in_the_kernel_log_only(w: Fresh) -> None:
    """A link of an NVSwitch fails; all programs only time out; the kernel log of one machine shows the cause."""
    w.start()
    w.train(34, save_every=17)
    at, sw = w.now + 0.4 * w.step_s, "nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 20034, "
    w.kernel(
        at,
        w.victim,
        f"{sw}Fatal, Link 28 LTSSM Fault Up\n~{sw}Severity 1 Engine instance 28 Sub-engine instance 00\n"
        f"~{sw}Data {{{{0x0000001c, 0x00000000, 0x00000000, 0x10000004, 0x00000000}}}}",
        "root",
        "sxid",
    )
    w.kernel(
        at + 0.3,
        w.victim,
        "NVRM: Xid (PCI:{pci}): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 12"
        "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        "root",
        "xid74",
        w.rank,
    )
    end = w.wait_out(at)
    w.kernel(end + 1, w.victim, "NVRM: Xid (PCI:{pci}): 45, pid={pid}, name=python3, Ch 00000008", "secondary", "x45")
    w.over(end + 4, first=0)
    w.truth = Truth("hardware", "nvlink_error", "hang", faulty=(w.victim,), also_symptoms=("crash",), **w.at_last())


def firmware_stops_answering(w: Fresh) -> None:
    """The GSP firmware of one GPU hangs: its rank is stuck in a call and prints nothing more."""
    w.start()
    w.train(38)
    at = w.now + 0.6 * w.step_s
    for k in range(3):
        w.kernel(
            at + 45 * (k + 1),
            w.victim,
            "NVRM: Xid (PCI:{pci}): 119, pid={pid}, name=python3, Timeout after 45s of waiting for RPC response from "
            "GPU{local} GSP! Expected function 76 (GSP_RM_CONTROL) (0x20802a02 0x8).\n"
            "~NVRM: GPU{local} GSP RPC buffer contains function 76 (GSP_RM_CONTROL) and data 0x0000000020802a02 "
            "0x0000000000000008.\n~NVRM: GPU{local} RPC history (CPU -> GSP):\n"
            "~NVRM:     entry function                   data0              data1              ts_start\n"
            "~NVRM:      0    76   GSP_RM_CONTROL        0x0000000020802a02 0x0000000000000008 0x00062{hex}",
            "root",
            "xid119",
            w.rank,
        )
    w.over(w.wait_out(at, stuck=[w.rank]) + 5, first=0)
    w.truth = Truth(
        "hardware",
        "gpu_gsp_hang",
        "hang",
        faulty=(w.victim,),
        also_symptoms=("crash",),
        **w.at_last(),
    )


def wild_address(w: Fresh) -> None:
    """A kernel on one GPU reads an invalid address; the cause may be the program, the compiler or the chip."""
    w.start()
    w.train(31)
    at = w.now + 0.5 * w.step_s
    if w.voice.vendor == "amd":
        text = "amdgpu {pci}.0: amdgpu: "
        w.kernel(
            at,
            w.victim,
            f"{text}[gfxhub0] no-retry page fault (src_id:0 ring:0 vmid:3 pasid:32771, for process python3 pid {{pid}} "
            f"thread python3 pid {{pid}})\n~{text}  in page starting at address 0x00007f{{hex}} from client 10\n"
            f"~{text}VM_L2_PROTECTION_FAULT_STATUS:0x00301031",
            "root",
            "fault",
            w.rank,
        )
        w.raw(
            at + 0.2,
            w.rank,
            "Memory access fault by GPU node-{local} (Agent handle: 0x55{hex}) on address 0x7f{hex}. Reason: Unknown.",
            "root",
            "access",
        )
    else:
        w.kernel(
            at,
            w.victim,
            "NVRM: Xid (PCI:{pci}): 31, pid={pid}, name=python3, Ch 00000013, intr 00000000. MMU Fault: ENGINE "
            "GRAPHICS GPC3 GPCCLIENT_T1_4 faulted @ 0x7f1c_38a00000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
            "root",
            "fault",
            w.rank,
        )
        w.boom(
            at + 0.3,
            w.rank,
            "RuntimeError: CUDA error: an illegal memory access was encountered\n~CUDA kernel errors might be "
            "asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
            "~For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
            tid="access",
        )
    w.broken(at + 1, [w.victim])
    w.over(at + 9)
    w.truth = Truth(
        "hardware",
        "gpu_kernel",
        origin=(w.victim,),
        also_categories=("user", "framework"),
        also_subcategories=("native_crash", "user_code_exception"),
        **w.at_last(),
    )


_MEMORY = {
    "ascend": (
        "[ascend] [drv_dms] dev {local} event 0x80e01801, severity critical: HBM multi bit ecc, uncorrectable",
        "RuntimeError: npuSynchronizeDevice:build/CMakeFiles/torch_npu/core/npu/NPUStream.cpp:391 NPU function error: "
        "HBM MULTI BIT ECC ERROR, error code is 507054\n~[ERROR] {ascend} (PID:{pid}, Device:{local}, RankID:{rank}) "
        "ERR00100 PTA call acl api failed\n~[Error]: The HBM of the device has an uncorrectable multi-bit ECC error.",
    ),
    "trainium": (
        "neuron: nd{local}: nd0 hbm0: uncorrectable ecc error count changed 0 -> 1",
        "{neuron} {pid}:{tid} ERROR  TDRV:exec_request_process_errors   nd{local} nc 1: (NRT_EXEC_HW_ERR_HBM_UE) "
        "uncorrectable error in HBM\n~Traceback (most recent call last):\n"
        '~  File "/opt/nxd/run_llama.py", line 402, in train_epoch\n~    xm.mark_step()\n'
        "RuntimeError: Bad StatusOr access: INTERNAL: nrt_execute failed with status NRT_EXEC_HW_ERR_HBM_UE (1201)",
    ),
    "gaudi": (
        "habanalabs {pci}.0 accel{local}: HBM uncorrectable double error on channel 3, pseudo channel 1\n"
        "habanalabs {pci}.0 accel{local}: Going to hard-reset device",
        "[{hms}][SYN_DEVICE][critical][tid:{tid}] device {local} was reset: DRAM error\n"
        "RuntimeError: synStatus=9 [Device-reset] Device was reset during graph launch",
    ),
    "amd": (
        "amdgpu {pci}.0: amdgpu: 1 uncorrectable hardware errors detected in umc block\n"
        "~amdgpu {pci}.0: amdgpu: RAS controller interrupt triggered by NBIF error\n"
        "~amdgpu {pci}.0: amdgpu: GPU reset begin!",
        "HSA exception: HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: device memory error, queue on GPU {local} aborted\n"
        "~Fatal Python error: Aborted",
    ),
    "tpu": (
        "gasket apex_{local}: uncorrectable ECC error in HBM stack 2, chip halted",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Accelerator device halted prematurely, perhaps due to an "
        "on-device check-failure. Node 0 halted unexpectedly at tag:pc TensorCoreSequencer:1:0x2f1 (from "
        "TensorCoreSequencer:1:0x310): HBM uncorrectable ECC error on chip {local}",
    ),
}


def device_memory(w: Fresh) -> None:
    """The memory of one accelerator has an error that cannot be corrected, in the words of its vendor."""
    w.start()
    w.train(33, save_every=16)
    at, (kernel, programme) = w.now + 0.3 * w.step_s, _MEMORY[w.voice.vendor]
    w.kernel(at, w.victim, kernel, "root", "kernel", w.rank)
    w.raw(at + 0.4, w.rank, programme, "root", "programme")
    w.broken(at + 2, [w.victim])
    w.over(at + 12)
    w.truth = Truth(
        "hardware",
        "gpu_ecc" if w.voice.vendor == "amd" else "npu_error",
        faulty=(w.victim,),
        also_subcategories=("gpu_ecc", "npu_error"),
        **w.at_last(),
    )


def root_port(w: Fresh) -> None:
    """The PCIe port of a network card reports a fatal error; the card is removed."""
    w.start()
    w.train(29)
    at = w.now + 0.4 * w.step_s
    w.kernel(
        at,
        w.victim,
        "pcieport 0000:37:01.0: AER: Uncorrected (Fatal) error received: 0000:3a:00.0\n"
        "mlx5_core 0000:3a:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)\n"
        "~mlx5_core 0000:3a:00.0:   device [15b3:1021] error status/mask=00040000/04400000\n"
        "~mlx5_core 0000:3a:00.0:    [18] MalfTLP                (First)\n"
        "~mlx5_core 0000:3a:00.0: AER:   TLP Header: 60001080 3a00010f 00000042 {hex}\n"
        "~mlx5_core 0000:3a:00.0: mlx5_pci_err_detected Device state = 1 health sensors: 0 pci_status: 1. Enter",
        "root",
        "aer",
    )
    for rank in w.of(w.victim)[:2]:
        w.raw(
            at + 1.5,
            rank,
            "{node}:{pid}:{tid} [{local}] transport/net_ib.cc:128 NCCL WARN NET/IB : mlx5_2:1 Got async event : device "
            "fatal",
            "root",
            "async",
        )
    w.over(w.wait_out(at) + 4, first=0)
    w.truth = Truth(
        "hardware",
        "pcie_aer",
        faulty=(w.victim,),
        also_symptoms=("hang",),
        also_subcategories=("nic_link_flap",),
        **w.at_last(),
    )


def wrong_sums(w: Fresh) -> None:
    """The program's own check finds one rank whose gradients differ from its replicas, twice."""
    w.start()
    w.train(35)
    at, bad, most = w.now + 0.9 * w.step_s, w.rank, w.world - 1
    w.say(
        at,
        w.reporter,
        f"replica check failed after step {w.n}: {most} of {w.world} ranks agree on gradient checksum "
        f"0x8f3ac21, rank {bad} has 0x8f3ae55",
        "root",
        "check",
        "ERROR",
    )
    w.say(
        at + 9,
        w.reporter,
        f"same batch computed again: rank {bad} has 0x11d09b3, all others 0x8f3ac21 as before",
        "root",
        "again",
        "ERROR",
    )
    w.say(at + 10, w.reporter, f"stopping, rank {bad} on {{bad}} computes wrong results", "root", "stop", "ERROR")
    w.over(at + 14, first=w.reporter)
    w.truth = Truth("hardware", "silent_data_corruption", faulty=(w.victim,), **w.at_last())


DEVICES: dict[str, Entry] = {
    "fabric_in_the_kernel_log_only": (fabric_in_the_kernel_log_only, 32, NVIDIA),
    "firmware_stops_answering": (firmware_stops_answering, 0, NVIDIA),
    "wild_address": (wild_address, 0, TORCH),
    "device_memory": (device_memory, 0, ("xingyun", "nxd", "kontor", "olmo", "levanter")),
    "root_port": (root_port, 24, TORCH),
    "wrong_sums": (wrong_sums, 16, ("pulse", "kontor", "nanotron")),
}
