"""Real stacks of frameworks, innermost first, one line each: ``function file``.

Written from the frameworks' public sources. ``WAITS`` holds, for each framework, the stack of a rank that waits for its
peers of a dimension (``prev`` and ``next``: pipeline neighbours); ``STOPS`` the stacks of ranks that wait for no peer;
``KIND`` the activity of the main thread in native dumps.
"""

from __future__ import annotations

Stack = tuple[str, ...]

C10D = "torch/distributed/distributed_c10d.py"
TP_MAP = "megatron/core/tensor_parallel/mappings.py"
P2P = "megatron/core/pipeline_parallel/p2p_communication.py"
TITAN_PP = "torch/distributed/pipelining/schedules.py"
FSDP = "torch/distributed/fsdp/_fully_shard"
PADDLE = "paddle/distributed"
WRAP = "wrapper torch/distributed/c10d_logger.py"

BASE: dict[str, Stack] = {
    "megatron": (
        "forward_backward_pipelining_with_interleaving megatron/core/pipeline_parallel/schedules.py",
        "train_step megatron/training/training.py",
        "train megatron/training/training.py",
        "pretrain megatron/training/training.py",
        "<module> pretrain_gpt.py",
    ),
    "deepspeed": (
        "forward deepspeed/runtime/engine.py",
        "train_one_epoch train/loop.py",
        "main train/run_sft.py",
        "<module> train/run_sft.py",
    ),
    "fsdp2": ("forward_backward llm/step.py", "fit llm/step.py", "main llm/__main__.py", "_run_code <frozen runpy>"),
    "titan": (
        "forward_backward_step torchtitan/train.py",
        "train_step torchtitan/train.py",
        "train torchtitan/train.py",
        "<module> torchtitan/train.py",
    ),
    "nemo": (
        "training_step nemo/collections/llm/gpt/model/base.py",
        "advance lightning/pytorch/loops/training_epoch_loop.py",
        "fit lightning/pytorch/trainer/trainer.py",
        "<module> nemo_run/core/runners/fdl_runner.py",
    ),
    "verl": (
        "update_policy verl/workers/actor/dp_actor.py",
        "update_actor verl/workers/fsdp_workers.py",
        "inner verl/single_controller/base/decorator.py",
        "actor_method_executor ray/_private/function_manager.py",
        "main_loop ray/_private/worker.py",
        "<module> ray/_private/workers/default_worker.py",
    ),
    "jax": ("train_step maxtext/train.py", "train_loop maxtext/train.py", "main maxtext/train.py", "<module> train.py"),
    "paddle": (
        f"forward_backward_pipeline {PADDLE}/fleet/meta_parallel/pipeline_parallel.py",
        f"train_batch {PADDLE}/fleet/meta_parallel/pipeline_parallel.py",
        "training_pipeline_step paddlenlp/trainer/trainer.py",
        "train paddlenlp/trainer/trainer.py",
        "<module> run_pretrain.py",
    ),
}

WAITS: dict[str, dict[str, Stack]] = {
    "megatron": {
        "tp": (
            f"reduce_scatter_tensor {C10D}",
            WRAP,
            f"_reduce_scatter_along_first_dim {TP_MAP}",
            "forward megatron/core/tensor_parallel/layers.py",
            "forward megatron/core/transformer/mlp.py",
        ),
        "cp": (
            f"batch_isend_irecv {C10D}",
            "flash_attn_p2p_communicate transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py",
            "forward transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py",
            "attn_forward_func_with_cp transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py",
        ),
        "ep": (
            f"all_to_all_single {C10D}",
            WRAP,
            f"forward {TP_MAP}",
            f"all_to_all {TP_MAP}",
            "token_dispatch megatron/core/transformer/moe/token_dispatcher.py",
            "dispatch megatron/core/transformer/moe/moe_layer.py",
        ),
        "prev": (f"_communicate {P2P}", f"recv_forward {P2P}"),
        "next": ("synchronize torch/cuda/__init__.py", f"_communicate {P2P}", f"send_forward_recv_backward {P2P}"),
        "dp": (
            "start_grad_sync megatron/core/distributed/param_and_grad_buffer.py",
            "finish_grad_sync megatron/core/distributed/param_and_grad_buffer.py",
            "finalize_model_grads megatron/core/distributed/finalize_model_grads.py",
        ),
    },
    "deepspeed": {
        "tp": (
            "all_reduce deepspeed/comm/torch.py",
            "all_reduce deepspeed/comm/comm.py",
            "forward deepspeed/module_inject/layers.py",
        ),
        "ep": (
            f"all_to_all_single {C10D}",
            "all_to_all_single deepspeed/comm/torch.py",
            "forward deepspeed/moe/sharded_moe.py",
            "apply torch/autograd/function.py",
        ),
        "dp": (
            "wait deepspeed/runtime/zero/partition_parameters.py",
            "fetch_sub_module deepspeed/runtime/zero/partitioned_param_coordinator.py",
            "pre_sub_module_forward_function deepspeed/runtime/zero/parameter_offload.py",
        ),
    },
    "fsdp2": {
        "cp": (
            "wait ring_flash_attn/utils.py",
            "ring_flash_attn_forward ring_flash_attn/ring_flash_attn.py",
            "forward ring_flash_attn/ring_flash_attn.py",
        ),
        "tp": (
            "wait_tensor torch/distributed/_functional_collectives.py",
            "redistribute torch/distributed/tensor/_redistribute.py",
        ),
        "dp": (
            f"all_gather_into_tensor {C10D}",
            WRAP,
            f"foreach_all_gather {FSDP}/_fsdp_collectives.py",
            f"unshard {FSDP}/_fsdp_param_group.py",
            f"pre_forward {FSDP}/_fsdp_param_group.py",
        ),
    },
    "titan": {
        "tp": (
            "wait_tensor torch/distributed/_functional_collectives.py",
            "redistribute_local_tensor torch/distributed/tensor/_redistribute.py",
            "_prepare_input_fn torch/distributed/tensor/parallel/style.py",
        ),
        "prev": (f"_wait_batch_p2p {TITAN_PP}", f"_step_microbatches {TITAN_PP}"),
        "next": (f"_wait_batch_p2p {TITAN_PP}", f"backward_one_chunk {TITAN_PP}", f"_step_microbatches {TITAN_PP}"),
        "dp": (
            f"reduce_scatter_tensor {C10D}",
            WRAP,
            f"foreach_reduce {FSDP}/_fsdp_collectives.py",
            f"post_backward {FSDP}/_fsdp_param_group.py",
        ),
    },
    "nemo": {
        "tp": (f"all_reduce {C10D}", WRAP, f"_reduce {TP_MAP}", "forward megatron/core/transformer/attention.py"),
        "prev": (f"_communicate {P2P}", f"recv_forward {P2P}"),
        "next": (f"_communicate {P2P}", f"recv_backward {P2P}"),
        "dp": (
            "finish_param_sync megatron/core/distributed/param_and_grad_buffer.py",
            "_pre_forward megatron/core/optimizer/distrib_optimizer.py",
        ),
    },
    "verl": {
        "dp": (
            f"all_gather_into_tensor {C10D}",
            WRAP,
            "_unshard torch/distributed/fsdp/_runtime_utils.py",
            "_pre_forward torch/distributed/fsdp/_runtime_utils.py",
        ),
    },
    "jax": {
        "dp": ("_value jax/_src/array.py", "__float__ jax/_src/array.py", "record_metrics maxtext/metric_logger.py"),
    },
    "paddle": {
        "tp": (
            f"all_reduce {PADDLE}/communication/stream/all_reduce.py",
            f"_mp_allreduce {PADDLE}/fleet/layers/mpu/mp_ops.py",
        ),
        "prev": (
            f"_p2p_helper {PADDLE}/fleet/meta_parallel/pp_utils/p2p_communication.py",
            f"recv_forward {PADDLE}/fleet/meta_parallel/pp_utils/p2p_communication.py",
        ),
        "next": (
            f"_p2p_helper {PADDLE}/fleet/meta_parallel/pp_utils/p2p_communication.py",
            f"recv_backward {PADDLE}/fleet/meta_parallel/pp_utils/p2p_communication.py",
        ),
        "dp": (
            f"all_reduce {PADDLE}/communication/stream/all_reduce.py",
            f"fused_allreduce_gradients {PADDLE}/fleet/utils/hybrid_parallel_util.py",
        ),
    },
}

#: name: (what the native frames show, frames above the framework's own)
STOPS: dict[str, tuple[str, Stack]] = {
    "loader_worker_dead": (
        "poll",
        (
            "poll selectors.py",
            "wait multiprocessing/connection.py",
            "poll multiprocessing/connection.py",
            "get multiprocessing/queues.py",
            "_try_get_data torch/utils/data/dataloader.py",
            "_next_data torch/utils/data/dataloader.py",
            "__next__ torch/utils/data/dataloader.py",
            "__iter__ accelerate/data_loader.py",
        ),
    ),
    "streaming_shard": (
        "sleep",
        (
            "wait_for_shard streaming/base/dataset.py",
            "prepare_shard streaming/base/dataset.py",
            "__getitem__ streaming/base/dataset.py",
            "next_batch llm/data.py",
        ),
    ),
    "nfs_write": (
        "write",
        (
            "_write_item torch/distributed/checkpoint/filesystem.py",
            "_write_files_from_queue torch/distributed/checkpoint/filesystem.py",
            "write_data torch/distributed/checkpoint/filesystem.py",
            "save torch/distributed/checkpoint/state_dict_saver.py",
        ),
    ),
    "torch_save": (
        "write",
        ("_save torch/serialization.py", "save torch/serialization.py", "save_checkpoint deepspeed/runtime/engine.py"),
    ),
    "lock": (
        "lock",
        (
            "acquire logging/__init__.py",
            "handle logging/__init__.py",
            "callHandlers logging/__init__.py",
            "info logging/__init__.py",
            "log_step mlops/logsink.py",
        ),
    ),
    "gil": ("spin", ("tokenize_batch fasttok/native.py", "encode fasttok/native.py", "collate data/collator.py")),
    "gc": ("gc", ("post_training_step_callbacks megatron/training/training.py",)),
    "cuda_sync": (
        "cuda",
        ("synchronize torch/cuda/__init__.py", "forward megatron/core/transformer/transformer_layer.py"),
    ),
    "item": ("cuda", ("clip_grad_norm_ torch/nn/utils/clip_grad.py",)),
    "permute": (
        "cuda",
        (
            "permute megatron/core/transformer/moe/moe_utils.py",
            "token_permutation megatron/core/transformer/moe/token_dispatcher.py",
        ),
    ),
    "router": (
        "cuda",
        (
            "sinkhorn megatron/core/transformer/moe/moe_utils.py",
            "sinkhorn_load_balancing megatron/core/transformer/moe/router.py",
            "routing megatron/core/transformer/moe/router.py",
        ),
    ),
    "attention": (
        "cuda",
        ("_flash_attn_forward flash_attn/flash_attn_interface.py", "forward flash_attn/flash_attn_interface.py"),
    ),
    "s3": (
        "poll",
        (
            "read ssl.py",
            "recv_into ssl.py",
            "readinto socket.py",
            "_read_status http/client.py",
            "begin http/client.py",
            "getresponse urllib3/connection.py",
            "_make_request urllib3/connectionpool.py",
            "send botocore/httpsession.py",
        ),
    ),
    "wandb": (
        "poll",
        (
            "recv_into ssl.py",
            "urlopen urllib3/connectionpool.py",
            "send requests/adapters.py",
            "post requests/sessions.py",
            "on_train_batch_end callbacks/report.py",
        ),
    ),
    "index_build": (
        "spin",
        (
            "_build_document_sample_shuffle_indices megatron/core/datasets/gpt_dataset.py",
            "__init__ megatron/core/datasets/gpt_dataset.py",
            "build_generic_dataset megatron/core/datasets/blended_megatron_dataset_builder.py",
        ),
    ),
    "import": (
        "read",
        (
            "get_data <frozen importlib._bootstrap_external>",
            "get_code <frozen importlib._bootstrap_external>",
            "exec_module <frozen importlib._bootstrap_external>",
            "_find_and_load <frozen importlib._bootstrap>",
            "<module> train/models/__init__.py",
        ),
    ),
    "compile": (
        "poll",
        (
            "wait threading.py",
            "result concurrent/futures/_base.py",
            "_wait_futures torch/_inductor/async_compile.py",
            "wait torch/_inductor/async_compile.py",
            "compile_to_module torch/_inductor/graph.py",
            "compile_fx torch/_inductor/compile_fx.py",
            "_compile torch/_dynamo/convert_frame.py",
        ),
    ),
    "generate": (
        "cuda",
        (
            "_sample transformers/generation/utils.py",
            "generate transformers/generation/utils.py",
            "write_samples eval/samples.py",
        ),
    ),
    "cpu_adam": (
        "spin",
        (
            "step deepspeed/ops/adam/cpu_adam.py",
            "_optimizer_step deepspeed/runtime/zero/stage3.py",
            "step deepspeed/runtime/zero/stage3.py",
        ),
    ),
    "teardown": ("lock", ("join threading.py", "_exit_function multiprocessing/util.py")),
    "grain": (
        "sleep",
        (
            "get queue.py",
            "_read_next grain/python/dataset.py",
            "__next__ grain/python/data_loader.py",
            "load_next_batch maxtext/input_pipeline/_input_pipeline_utils.py",
        ),
    ),
    "rollout": (
        "cuda",
        (
            "execute_model vllm/worker/model_runner.py",
            "step vllm/engine/llm_engine.py",
            "generate vllm/entrypoints/llm.py",
            "generate_sequences verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py",
        ),
    ),
    "subprocess": (
        "poll",
        (
            "_try_wait subprocess.py",
            "wait subprocess.py",
            "call subprocess.py",
            "sync_to_bucket ops/upload.py",
            "save_hook ops/upload.py",
        ),
    ),
    "file_lock": (
        "sleep",
        (
            "acquire filelock/_api.py",
            "__enter__ filelock/_api.py",
            "load_dataset_builder datasets/load.py",
            "load_dataset datasets/load.py",
        ),
    ),
}

#: Innermost native frames: ``function library``; ``comm`` is what waits for peers.
KIND: dict[str, Stack] = {
    "comm": (
        "pthread_cond_clockwait libc.so.6",
        "c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal libtorch_cuda.so",
        "pybind11::cpp_function::dispatcher libtorch_python.so",
    ),
    "cuda": (
        "sched_yield libc.so.6",
        "cuStreamSynchronize libcuda.so.1",
        "cudaStreamSynchronize libcudart.so.12",
        "at::native::_local_scalar_dense_cuda libtorch_cuda.so",
    ),
    "poll": ("__poll libc.so.6", "select_poll_poll select.cpython-310-x86_64-linux-gnu.so"),
    "sleep": ("clock_nanosleep libc.so.6", "time_sleep libpython3.10.so.1.0"),
    "write": ("__libc_write libc.so.6", "_Py_write libpython3.10.so.1.0", "_io_FileIO_write libpython3.10.so.1.0"),
    "read": ("__libc_read libc.so.6", "_Py_read libpython3.10.so.1.0"),
    "lock": (
        "futex_wait libc.so.6",
        "PyThread_acquire_lock_timed libpython3.10.so.1.0",
        "lock_PyThread_acquire_lock libpython3.10.so.1.0",
    ),
    "spin": ("fast_bpe_merge _native.cpython-310-x86_64-linux-gnu.so",),
    "gc": ("visit_decref libpython3.10.so.1.0", "gc_collect_main libpython3.10.so.1.0"),
}
