"""Many wordings of one cause: monitors, drivers, schedulers and frameworks of several makers say it their own way."""

import pytest

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.model import Role

WORDINGS = {
    "gpu_off_bus": [
        "nvidia-smi: Unable to determine the device handle for GPU0000:9B:00.0: Unknown Error",
        "gpu-mon: ERROR GPU 3 (0000:5d:00.0) not found, 7 of 8 GPUs visible",
        "[rank12]: RuntimeError: CUDA error: GPU is lost",
    ],
    "gpu_ecc": [
        "gpu-mon: WARNING GPU 3 (0000:5d:00.0) volatile uncorrectable ECC errors: 4",
        "NVRM: Xid (PCI:0000:5d:00): 48, pid=1234, DBE (double bit error) ECC Error",
        "DCGM health: GPU 3 has 2 pending page retirements",
    ],
    "nvlink_error": [
        "NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!",
        "dcgm: NVLink error counters exceeded threshold on GPU 2 link 4",
        "gpu-mon: GPU 2 NVLink 4 state DOWN",
    ],
    "gpu_gsp_hang": [
        "NVRM: GPU3 GSP RPC buffer contains function 76",
        "nvidia-smi timed out after 60 seconds on trn-17",
    ],
    "gpu_kernel": [
        "[rank5]: RuntimeError: CUDA error: an illegal instruction was encountered",
    ],
    "npu_error": [
        "[ERROR] TBE(123,python): aicore exception, error code 507015, EZ9999",
        "[ERROR] rtStreamSynchronize failed, runtime result = 507035 [the vector core execution is abnormal]",
        "dmesg: davinci 0000:c1:00.0: device 2 ecc uncorrectable error",
    ],
    "nic_link_flap": [
        "bnxt_en 0000:17:00.0 eth3: NIC Link is Down",
        "kernel: mlx5_core 0000:9b:00.0: Port module event: module 0, Cable unplugged",
        "networkd: bond0: link status definitely down for interface ens1f0, disabling it",
    ],
    "pcie_aer": [
        "pcieport 0000:97:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:98:00.0",
        "gpu-mon: PCIe replay counter of GPU 4 increased by 91283 in 60 s",
        "pcieport 0000:97:01.0: DPC: containment event, status:0x1f01 source:0x0000",
    ],
    "host_oom": [
        "Task in /slurm/uid_1000/job_123 killed as a result of limit of /slurm/uid_1000",
        "systemd-oomd: Killed /kubepods/pod due to memory pressure",
        "Container trainer exceeded memory limit (OOMKilled), exit code 137",
    ],
    "kernel_panic": [
        "Kernel panic - not syncing: Hard LOCKUP",
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "watchdog: Watchdog detected hard LOCKUP on cpu 12",
    ],
    "node_lost": [
        "slurmctld: error: Nodes trn-17 not responding",
        "Warning NodeNotReady node/trn-17 Node trn-17 status is now: NodeNotReady",
        "srun: error: Node failure on trn-17",
    ],
    "process_killed": [
        "train process 1234 (rank 5) was terminated by signal 9",
        "[rank5] worker died with exit code 137",
    ],
    "disk_io": [
        "nvme nvme0: controller is down; will reset: CSTS=0xffffffff",
        "sd 0:0:0:0: [sda] tag#0 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE",
        "XFS (nvme0n1p1): log I/O error -5",
    ],
    "disk_full": [
        "OSError: [Errno 28] No space left on device: '/local_nvme/cache/x'",
        "fallocate failed: No space left on device",
        "df: /dev/nvme0n1p1 100% used",
    ],
    "mce_memory": [
        "EDAC sbridge MC0: HANDLING MCE MEMORY ERROR",
        "mce: Uncorrected hardware memory error in user-access at 3f9a2b40",
        "Memory failure: 0x3f9a2b: Sending SIGBUS to python3:1234 due to hardware memory corruption",
    ],
    "thermal_slowdown": [
        "gpu-mon: WARNING GPU 5 SW Thermal Slowdown active: sm_clk 1980 -> 900 MHz, temp 88C",
        "GPU 5 clocks throttled: HW slowdown (temperature 92 C)",
        "mce: CPU12: Core temperature above threshold, cpu clock throttled",
    ],
    "silent_data_corruption": [
        "validation: gradient checksum mismatch on rank 17 against replica rank 49",
        "determinism check failed: rank 17 produced different loss for the same batch",
        "rerun_state_machine: result is not reproducible on the same GPU: transient error",
    ],
    "rdma_congestion": [
        "mlx5_2: high rate of CNP: np_cnp_sent +182731 in 10s",
        "switch leaf-2: PFC pause frames storm on port Eth1/3",
        "rdma-mon: out_of_sequence 12000/s, adaptive retrans on mlx5_3",
    ],
    "switch_rdma_timeout": [
        "[ERROR] HCCL: roce transport retry counter exceeded, remote ip 10.0.0.2",
        "libfabric:123:efa:cq:efa_rdm_cq_poll: Unresponsive remote endpoint",
    ],
    "link_down": [
        "opensm: SM port is down",
        "leaf-7 %PORT-5-IF_DOWN: Interface Ethernet1/12 is down",
        "switch spine-2 unreachable",
    ],
    "packet_loss": [
        "net-mon: packet loss 12.5% on eth0 towards hgx-7",
        "rx_dropped on eth2 increasing: 1823 pkts/s",
        "TCP retransmission rate 9% on bond0",
    ],
    "nccl_internal": [
        "NCCL WARN Message truncated : received 1024 bytes instead of 256",
        "NCCL WARN Assertion failed in proxy.cc",
    ],
    "rendezvous_timeout": [
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "TimeoutError: waited 600 s for 16 nodes, 15 present",
    ],
    "ckpt_corrupt": [
        "safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization",
        "EOFError: Ran out of input",
        "RuntimeError: checkpoint shard 3 checksum mismatch: expected 0x1234 got 0x5678",
    ],
    "collective_mismatch": [
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 5 is running collective",
        "[rank 3] expected ALLREDUCE but got ALLGATHER at seq 1234",
        "NCCL flight recorder: ranks [3] mismatched op type at SeqNum 5512",
    ],
    "dataloader_hang": [
        "RuntimeError: DataLoader timed out after 600 seconds",
        "WARNING data worker 3 on rank 12 has not produced a batch for 300 s",
        "rank 4: next(data_iterator) blocked 900 s",
    ],
    "cuda_oom": [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        "RuntimeError: NPU out of memory. Tried to allocate 2 GiB",
    ],
    "host_memory_leak": [
        "mem-mon: RSS of rank 5 grew from 40 GB to 512 GB over 3000 iterations",
        "WARNING host memory usage 97% and growing 1.2 GB/min",
    ],
    "shape_mismatch": [
        "ValueError: (InvalidArgument) The number of elements in Input(X) should be equal to that of Input(Label)",
        "InvalidArgumentError: (InvalidArgument) Expected x_dims[1] == y_dims[0], but received 512 != 256",
        "RuntimeError: shape '[8, 4096, 32]' is invalid for input of size 1000",
        "RuntimeError: Expected tensor for argument #1 'indices' to have scalar type Long",
        "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 2 but got size 3",
    ],
    "bad_config": [
        "AssertionError: hidden size (4100) must be divisible by num attention heads (32)",
        "hydra.errors.ConfigCompositionException: Could not override 'model.foo'.",
        "ValueError: Invalid mesh shape (4, 2) for 16 devices",
    ],
    "bad_argument": [
        "main.py: error: argument --lr: invalid float value: '1e-4x'",
        "usage: train.py [-h]",
        "absl.flags._exceptions.UnrecognizedFlagError: Unknown command line flag 'foo'",
    ],
    "import_error": [
        "ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found",
        "ModuleNotFoundError: No module named 'apex'",
    ],
    "dataset_missing": [
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/c4/train.bin'",
        "datasets.exceptions.DatasetNotFoundError: Dataset 'x' doesn't exist on the Hub",
        "AssertionError: Could not find index file /data/c4.idx",
    ],
    "nan_divergence": [
        "RuntimeError: Loss is nan, terminating run",
        "ValueError: Found NaN gradients in layer 3",
        "WARNING: gradient norm inf at step 1234",
    ],
    "bad_data_assert": [
        "AssertionError: token ids must be smaller than vocab size, got 50300",
        "IndexError: index out of range in self",
        "AssertionError: sample 1234 has label 1001 outside [0, 1000)",
    ],
    "user_code_exception": [
        "TypeError: 'NoneType' object is not subscriptable",
        "AttributeError: 'Trainer' object has no attribute 'foo'",
        "ZeroDivisionError: division by zero",
    ],
    "native_crash": [
        "*** SIGSEGV received at time=1700000 on cpu 12 ***",
        "Fatal Python error: Segmentation fault",
        "python3[1234]: segfault at 0 ip 00007f sp 00007f error 4 in libtorch_cuda.so",
    ],
    "preemption": [
        "slurmstepd: error: *** JOB 123 ON trn-17 CANCELLED AT 2025-01-01T00:00:00 DUE TO PREEMPTION ***",
        "Job 123 preempted by job 456",
        "Spot instance interruption notice received",
    ],
    "time_limit": [
        "slurmstepd: error: *** JOB 123 ON trn-17 CANCELLED AT 2025-01-01T00:00:00 DUE TO TIME LIMIT ***",
        "=>> PBS: job killed: walltime 86423 exceeded limit 86400",
    ],
    "cancelled": [
        "scancel: user ada cancelled job 123",
        "Job cancelled by user ada",
        "pytorchjob job-1 deleted by user ada",
    ],
    "image_pull": [
        'Failed to pull image "reg.example/x/y:1": rpc error: code = NotFound',
        "Error response from daemon: manifest for x:y not found",
        "slurmstepd: error: pyxis: container start failed with error code: 1",
    ],
    "device_alloc": [
        "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
        "nvidia-container-cli: device error: 3: unknown device",
    ],
    "storage_quota": [
        "OSError: [Errno 122] Disk quota exceeded",
        "lfs quota: user ada exceeded block hard limit",
    ],
    "storage_outage": [
        "LustreError: 11-0: fs-OST0003-osc: operation ost_write to node 10.0.0.1@o2ib failed: rc = -107",
        "nfs: server nas1 not responding, timed out",
        "OSError: [Errno 121] Remote I/O error: '/lustre/x'",
    ],
    "scheduler": [
        "srun: error: Unable to create step for job 123: Job/step already completing or completed",
        "Warning FailedScheduling pod/x 0/128 nodes are available: 128 Insufficient nvidia.com/gpu",
    ],
    "straggler": [
        "straggler detection: rank 57 GPU performance score 0.61",
    ],
    "slow_network": [
        "allreduce bandwidth on rail 3 dropped to 12 GB/s",
    ],
    "slow_step": [
        "step time increased from 7.9 s to 14.2 s",
    ],
}


@pytest.mark.parametrize("subcategory", WORDINGS)
def test_a_cause_is_known_in_many_words(subcategory: str) -> None:
    rules, tree = signatures.load(), taxonomy.load()
    for line, rule_id in zip(WORDINGS[subcategory], rules.match_texts(WORDINGS[subcategory]), strict=True):
        rule = rules.rule(rule_id or "")
        assert rule is not None, line
        assert tree.get(rule.category).subcategory == subcategory, f"{line!r} is taken by {rule.id}"
        assert rule.role in {Role.ROOT, Role.CONFIRMATION}, line


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (
            "worker 7 ended (exit code: -3). If exit code is -9 (SIGKILL), a common cause is the OOM killer",
            "elastic.exit_killed",
        ),
        (
            "The node n7 is gone. This can happen when (1) the node was preempted by a higher priority",
            "slurm.preempted",
        ),
        ("task 7 was lost. There are some potential root causes. (1) Segmentation fault", "code.native_crash"),
    ],
)
def test_a_possible_cause_in_a_message_is_no_evidence(line: str, rule: str) -> None:
    assert signatures.load().match_texts([line]) != [rule]
    said = line.replace("If exit code is", "The exit code is").replace("This can happen when", "").split("causes. ")[-1]
    said = said.replace("code is -9", "code: -9").replace("a common cause is", "by")
    assert signatures.load().match_texts([said]) == [rule]


def test_users_rules_see_what_the_engines_own_do_not() -> None:
    text = (
        '[[signature]]\nid = "site.guess"\ntitle = "A guess"\nrole = "root"\npattern = "gremlins in the cable"\n'
        'advice = "Look."\nsource = "site"\nexample = "gremlins in the cable"\ncounter = "no"\n'
    )
    rules = signatures.load_with([text])
    assert rules.match_texts(["lost. Possible causes: gremlins in the cable"]) == ["site.guess"]


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("zorg: MLU 3 has crashed", "hardware.npu.fault"),
        ("erdma: admin queue is not responding", "hardware.network.adapter"),
        ("md7: two members are offline", "hardware.disk.io"),
        ("daos: pool handle has expired", "platform.storage.outage"),
        ("jobset-controller: pods of run7 rejected", "platform.scheduler.error"),
        ("snapshot 900 is invalid", "framework.checkpoint"),
        ("flagcx: group of 8 lost", "framework.collective.internal"),
    ],
)
def test_a_subject_and_a_verb_of_failing_are_enough_where_no_wording_is_known(line: str, category: str) -> None:
    found = signatures.load().match_texts([line])[0]
    assert found is not None and found.startswith("family.")
    rule = signatures.load().rule(found)
    assert rule is not None
    assert rule.category == category
    assert rule.strength.value == "weak"


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_core 0000:1a:00.0: firmware version: 28.41.1000",
        "neuron: loaded, 0 errors",
        "NCCL INFO Call to mlx5dv_x failed, using the other path",
        "s3://b/run7/step_900: 9 parts uploaded, 0 errors",
        "lr scheduler could not be found in the state, started anew",
    ],
)
def test_ordinary_lines_about_the_same_subjects_are_no_failures(line: str) -> None:
    assert signatures.load().match_texts([line]) == [None]
