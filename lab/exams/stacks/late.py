"""A second hold-out: frameworks and functions that neither the rules nor the first exam contain. Never used for
corrections.
"""

from __future__ import annotations

import random

from lab.exams.stacks.forms import Proc
from lab.exams.stacks.frames import BASE, STOPS, WAITS, WRAP, Stack

C10D = "torch/distributed/distributed_c10d.py"
NANO = "nanotron/parallel"

BASE |= {
    "accelerate": (
        "backward accelerate/accelerator.py",
        "main examples/run_clm_no_trainer.py",
        "<module> examples/run_clm_no_trainer.py",
    ),
    "nanotron": (
        f"train_batch_iter {NANO}/pipeline_parallel/engine.py",
        "training_step nanotron/trainer.py",
        "train nanotron/trainer.py",
        "<module> run_train.py",
    ),
    "horovod": ("train imagenet/train.py", "main imagenet/train.py", "<module> imagenet/train.py"),
    "mindspeed": (
        "forward_backward_pipelining_without_interleaving megatron/core/pipeline_parallel/schedules.py",
        "train_step megatron/training/training.py",
        "train mindspeed_llm/training/training.py",
        "<module> pretrain_gpt.py",
    ),
}
WAITS |= {
    "accelerate": {
        "dp": (
            f"broadcast {C10D}",
            WRAP,
            "_sync_module_buffers torch/nn/parallel/distributed.py",
            "_pre_forward torch/nn/parallel/distributed.py",
        )
    },
    "nanotron": {
        "tp": (
            "all_reduce nanotron/distributed.py",
            f"forward {NANO}/tensor_parallel/distributed_differentiable_primitives.py",
            "apply torch/autograd/function.py",
        ),
        "prev": (
            f"recv_tensors {NANO}/pipeline_parallel/p2p.py",
            f"irecv_tensors {NANO}/pipeline_parallel/p2p.py",
            f"recv_from_pipeline_state_buffer {NANO}/pipeline_parallel/functional.py",
        ),
        "next": (f"recv_tensors {NANO}/pipeline_parallel/p2p.py", f"__call__ {NANO}/pipeline_parallel/state.py"),
        "dp": (
            "all_reduce_coalesced nanotron/distributed.py",
            f"sync_gradients_across_dp {NANO}/data_parallel/utils.py",
        ),
    },
    "horovod": {
        "dp": (
            "synchronize horovod/torch/mpi_ops.py",
            "synchronize horovod/torch/optimizer.py",
            "step horovod/torch/optimizer.py",
        )
    },
    "mindspeed": {
        "tp": (
            f"all_reduce {C10D}",
            WRAP,
            "_reduce mindspeed/core/tensor_parallel/mappings.py",
            "forward mindspeed/core/transformer/mlp.py",
        ),
        "prev": (
            "wait torch_npu/distributed/work.py",
            "_communicate megatron/core/pipeline_parallel/p2p_communication.py",
            "recv_forward megatron/core/pipeline_parallel/p2p_communication.py",
        ),
        "next": (
            "wait torch_npu/distributed/work.py",
            "_communicate megatron/core/pipeline_parallel/p2p_communication.py",
            "recv_backward megatron/core/pipeline_parallel/p2p_communication.py",
        ),
        "dp": (
            f"reduce_scatter_tensor {C10D}",
            WRAP,
            "start_grad_sync megatron/core/distributed/param_and_grad_buffer.py",
        ),
    },
}
STOPS |= {
    "hf_stream": (
        "poll",
        (
            "read fsspec/spec.py",
            "_fetch_range huggingface_hub/hf_file_system.py",
            "__iter__ datasets/iterable_dataset.py",
            "__iter__ accelerate/data_loader.py",
        ),
    ),
    "npu_sync": (
        "cuda",
        ("synchronize torch_npu/npu/utils.py", "forward mindspeed/core/transformer/flash_attention.py"),
    ),
    "h5": ("read", ("__getitem__ h5py/_hl/dataset.py", "_read_rows corpus/h5rows.py", "__getitem__ corpus/h5rows.py")),
    "nvml": ("read", ("nvmlDeviceGetHandleByIndex pynvml.py", "poll_power telemetry/power.py")),
    "deadlock": ("lock", ("put queue.py", "emit telemetry/ring.py", "on_step telemetry/ring.py")),
    "print": ("write", ("write tqdm/utils.py", "moveto tqdm/std.py", "display tqdm/std.py", "update tqdm/std.py")),
    "save_pretrained": (
        "write",
        (
            "save_file safetensors/torch.py",
            "save_pretrained transformers/modeling_utils.py",
            "save_model accelerate/accelerator.py",
        ),
    ),
    "mpi_spawn": (
        "poll",
        ("communicate subprocess.py", "check_output subprocess.py", "git_revision utils/versions.py"),
    ),
}


def last_barrier(framework: str, where: Stack) -> Stack:
    return (f"barrier {C10D}", WRAP, *where, *BASE[framework][1:])


def saving(rng: random.Random, simulate: object) -> object:
    """All ranks except one wait in the barrier after a save; that one still writes."""
    hang = simulate("accelerate", {"dp": 16}, "dp", {rng.randrange(16)}, None)  # type: ignore[operator]
    for rank in range(16):
        late = rank in hang.culprits
        out = (
            (*STOPS["save_pretrained"][1], *BASE["accelerate"][1:])
            if late
            else last_barrier("accelerate", ("wait_for_everyone accelerate/utils/other.py",))
        )
        hang.procs[rank] = [Proc(52000 + rank * 7, out, "write" if late else "comm")]
    return hang
