"""What healthy runs print is never taken for a cause, or at most for the weakest of hints."""

import pytest

from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import Strength
from diagnosis.model import Role

LINES = [
    "2024:01:01-10:10:10:(123) |CCL_WARN| value of CCL_ATL_TRANSPORT changed to be ofi (default:mpi)",
    "I tensorflow: successful NUMA node read from SysFS had negative value (-1)",
    "E tensorflow: could not open file to read NUMA node: /sys/bus/pci/devices/0000:01:00.0/numa_node",
    "I Could not find cuda drivers on your machine, GPU will not be used.",
    "Some weights of the model checkpoint at bert-base were not used when initializing BertForMaskedLM",
    " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
    " [WARNING]  sparse_attn requires a torch version >= 1.5 and < 2.0 but detected 2.1",
    " [WARNING]  using untested triton version (2.1.0), only 1.0.0 is known to be compatible",
    "Apex is not installed. Falling back to Torch Norm",
    "slurmstepd: error: couldn't chdir to `/home/u/x': No such file or directory: going to /tmp instead",
    "srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
    "NOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be insufficient for PyTorch.",
    "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.",
    "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "mce: CPU supports 32 MCE banks",
    "perf: interrupt took too long (2509 > 2500), lowering kernel.perf_event_max_sample_rate to 79000",
    "IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready",
    "docker0: port 1(veth1) entered disabled state",
    "INFO:root:Starting evaluation, previous loss 2.31",
    "[INFO] NaN check enabled",
    "using nan_policy=skip",
    "  exit_on_missing_checkpoint ...................... False",
    "  error_injection_rate ............................ 0",
    "  check_for_nan_in_loss_and_grad .................. True",
    "  timeout_minutes ................................. 10",
    "  no_load_optim ................................... None",
    "  failed_ranks .................................... []",
    "  retry_count=0 timeouts=0 errors=0",
    "[rank0]:W1121 torch/_dynamo/convert_frame.py: torch._dynamo hit config.cache_size_limit (8)",
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    "Not using distributed mode",
    "wandb: WARNING Unable to render HTML",
    "git: fatal: not a git repository (or any of the parent directories): .git",
    "tee: /dev/stderr: Permission denied",
    "bash: cannot set terminal process group (-1): Inappropriate ioctl for device",
    "bash: no job control in this shell",
    "cat: /proc/driver/nvidia/version: No such file or directory",
    "rm: cannot remove '/dev/shm/x': No such file or directory",
    "mkdir: cannot create directory '/results': File exists",
    "ls: cannot access '/x': No such file or directory",
    "sudo: unable to resolve host trn-17: Name or service not known",
    "Error response from daemon: No such container: mlperf",
    "Error: No such container: mlperf",
    "Error response from daemon: network with name mlperf already exists",
    "nvidia-smi: command not found",
    "nvcc: command not found",
    "ulimit: error setting limit (Operation not permitted)",
    "WARNING: dev/nvidia-uvm not found",
    "2024 [W] [TRT] CUDA lazy loading is not enabled",
    "HABANA_VISIBLE_DEVICES=all",
    "synapse_logger WARNING: 3100 Graph compilation cache miss",
    "[WARNING] HCCL: retry count 0",
    "[WARNING] TBE(1234,python): [op_cache] load failed cache not found will compile",
    "W0101 pjrt: compile took too long: 123 s; consider persistent cache",
    "Heartbeat thread started, timeout 600 s",
    "ignoring SIGPIPE",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_healthy_run_accuses_nobody(line: str) -> None:
    rules = signatures.load()
    rule = rules.rule(rules.match_texts([line])[0] or "")
    assert rule is None or rule.role is not Role.ROOT or rule.strength is Strength.WEAK
