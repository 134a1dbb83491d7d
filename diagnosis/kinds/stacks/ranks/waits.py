"""The activity of a rank, from its frames: waiting for peers, for its GPU, computing, or busy on its host. In a hang
most ranks wait in communication for the few that are not there. The *kind* of the innermost known frame identifies
these, not a list of known failures: a frame of a communication library is a wait, for every framework.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from diagnosis.kinds.stacks.read.stack_frames import Frame

COMM: Final = "comm"  # in a collective or point-to-point call: waits for peers
DEVICE: Final = "device"  # waits for its own GPU, which may itself wait for peers
COMPUTE: Final = "compute"  # inside the model or the optimizer
HOST: Final = "host"  # data loading, storage, locks, sleep, sub-processes: waits for no peer
LOCAL: Final = "local"  # code that no rule knows; certainly no communication
NOTHING: Final = "nothing"  # no frames


class Activity(msgspec.Struct, frozen=True):
    """``kind`` as above; ``what`` in words; ``dim`` the parallel dimension whose group is waited for (``""``: any);
    ``to`` the pipeline neighbour (``prev``, ``next``, ``""``: unknown); ``frame`` the frame that decided."""

    kind: str
    what: str
    dim: str = ""
    to: str = ""
    frame: str = ""


_COLLECTIVE = re.compile(
    r"^_?(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)(?:_|$)|^_?(?:batch_)?i?send_?i?recv|_all_?reduce"
    r"|_all_?gather"
    r"|_reduce_?scatter|_all_?to_?all|^monitored_barrier|^(?:send|recv)_(?:forward|backward)|broadcast_object_list"
    r"|_object_list$|reduce_scatter_tensor",
    re.IGNORECASE,
)
_SHORT_COLLECTIVE = re.compile(
    r"^_?(?:i?send|i?recv|reduce|gather|scatter|broadcast|bcast|barrier|wait|synchronize|wait_tensor|_?wait_for\w*"
    r"|join)$",
    re.IGNORECASE,
)
_COMM_FILE = re.compile(
    r"torch/distributed/(?!elastic|checkpoint|run\.py|launch)|distributed_c10d|_functional_collectives"
    r"|p2p_communication|tensor_parallel/mappings|deepspeed/comm"
    r"|(?:^|[/_.])(?:nccl|rccl|hccl|mscclpp?|gloo|mpi|mpi4py|horovod|oneccl|xccl|ucx|ucp|comm|communicator"
    r"|collectives?)(?:[/_.]|$)",
    re.IGNORECASE,
)
_COMM_NATIVE = re.compile(
    r"\b(?:pnccl|nccl|rccl|hccl|Hccl)[A-Z_]|ProcessGroup(?:NCCL|Gloo|MPI|HCCL|UCC)|c10d::|\bgloo::|\bP?MPI_|\bucp_"
    r"|\bibv_|WorkNCCL|WorkHCCL|\bncclCommWatchdog"
)
#: Of a framework that no rule knows: code about parallelism whose name says that it waits or exchanges.
_PARALLEL_FILE = re.compile(
    r"^(?!.*(?:checkpoint|elastic|launch)).*(?:distributed|parallel|pipe(?:line|lining)?|p2p|fsdp|ddp|zero|mesh"
    r"|comm)[\w]*(?:/|\.py|$)",
    re.IGNORECASE,
)
_WAITING_NAME = re.compile(r"(?:^|_)(?:wait|recv|receive|send|exchange|barrier|p2p)(?:_|$)", re.IGNORECASE)
_BARE_WAIT = re.compile(r"^_?(?:wait|barrier|i?send|i?recv|send_?recv|exchange|wait_all)$", re.IGNORECASE)
_EXCHANGING_NAME = re.compile(
    r"(?:^|_)(?:sync|synchronize|allreduce|allgather|reduce|gather|scatter|broadcast|flush)(?:_|$|ed$|s$)",
    re.IGNORECASE,
)
_GRAD_SYNC = re.compile(
    r"grad(?:ient)?s?_?sync|sync_?grad|reduce_gradients|allreduce_grad|reduce_grads|_wait_for_computation_stream"
    r"|wait_for_unshard|_unshard|finalize_model_grads",
    re.IGNORECASE,
)
_DEVICE = re.compile(
    r"^(?:cuda|hip|aclrt)?(?:Stream|Device|Event)Synchronize|^cu(?:Ctx|Stream|Event)Synchronize|^aclrtSynchronize"
    r"|^synchronize$|^item$|^_?local_scalar_dense"
    r"|^_engine_run_backward$|^run_backward$|^cudaMemcpy\b|^tolist$|^current_stream$",
    re.IGNORECASE,
)
_DEVICE_FILE = re.compile(
    r"torch/(?:cuda|npu|xpu|autograd/(?:__init__|graph))|torch/_tensor|torch_npu|libcudart|libcuda|libamdhip"
    r"|libascendcl"
)

#: First match of (file, function) wins, scanning frames from the innermost on. ``None`` matches anything.
_HOST_WORK: tuple[tuple[str, re.Pattern[str] | None, re.Pattern[str] | None], ...] = (
    (
        "waiting for its data loader",
        re.compile(
            r"torch/utils/data/dataloader|/data_?loaders?[/.]|(?:^|/)data(?:_?loader|set|_iter\w*|_pipeline)?s?\.py"
            r"|prefetch|webdataset|streaming/base|mosaicml|dali|tf/data|datasets/(?:iterable|arrow)",
            re.IGNORECASE,
        ),
        None,
    ),
    (
        "waiting for its data loader",
        None,
        re.compile(
            r"get_batch|next_batch|fetch_batch|_next_data|_try_get_data|load_batch|next_data|data_iter", re.IGNORECASE
        ),
    ),
    (
        "reading or writing a checkpoint",
        re.compile(
            r"checkpoint|torch/serialization|safetensors|filesystem_(?:async|writer)|torchsnapshot|ocdbt|tensorstore",
            re.IGNORECASE,
        ),
        None,
    ),
    (
        "reading or writing a checkpoint",
        None,
        re.compile(
            r"(?:save|load|write|read)_(?:checkpoint|state|shard|model)|torch_save|write_(?:data|preloaded)",
            re.IGNORECASE,
        ),
    ),
    (
        "waiting for storage or the network",
        re.compile(
            r"(?:^|/)(?:boto3|botocore|s3fs|fsspec|gcsfs|urllib3?|requests|http/client|aiohttp|hdfs|pyarrow"
            r"|smart_open|socket\.py|ssl\.py)",
            re.IGNORECASE,
        ),
        None,
    ),
    ("waiting for a sub-process", re.compile(r"(?:^|/)subprocess\.py|(?:^|/)popen_\w+\.py"), None),
    ("collecting garbage", None, re.compile(r"^(?:gc_?collect|collect_garbage|gc_)", re.IGNORECASE)),
    (
        "compiling kernels",
        re.compile(
            r"torch/_(?:inductor|dynamo)|triton/(?:compiler|runtime)|torch/utils/cpp_extension|ninja", re.IGNORECASE
        ),
        None,
    ),
    (
        "writing its log or metrics",
        re.compile(r"(?:^|/)logging/|(?:^|/)wandb|tensorboard|mlflow|(?:^|/)loguru", re.IGNORECASE),
        None,
    ),
)
_COMPUTE = re.compile(
    r"torch/(?:nn|optim|autograd/function|_ops|_compile|amp|fx)|transformer_engine|flash_attn|apex"
    r"|megatron/core/(?:transformer|models|fusions|optimizer|ssm|tensor_parallel/layers)"
    r"|/models?[/.]|modeling_|xformers|cutlass|triton|(?:^|/)(?:optimizer|layers?|attention|mlp|moe|experts?|router"
    r"|module)\w*\.py|libtorch_(?:cuda|cpu)|libcublas|libcudnn",
    re.IGNORECASE,
)
_COMPUTE_NAME = re.compile(
    r"^(?:forward|__call__|_call_impl|_wrapped_call_impl|optimizer_step|backward|apply)$|gemm|layer_?norm|attention",
    re.IGNORECASE,
)
#: Waiting functions of the interpreter: the calling frame decides, not these.
_INTERPRETER_WAIT = re.compile(
    r"(?:^|/)(?:threading|queue|selectors|contextlib|functools|c10d_logger|_bootstrap|runpy|connection|queues"
    r"|synchronize|context|process|errors/__init__|inspect|weakref)\.py$|^<frozen"
)
_DIMENSIONS = (
    (
        "pp",
        re.compile(
            r"p2p_communication|(?:send|recv)_(?:forward|backward)|pipe/p2p|:\w*p2p|exec_(?:send|recv)"
            r"|:(?:batch_)?i?send|:i?recv|send_?recv",
            re.IGNORECASE,
        ),
    ),
    ("ep", re.compile(r"\bmoe\b|moe[/_]|token_dispatch|expert|all_?to_?all", re.IGNORECASE)),
    (
        "cp",
        re.compile(
            r"context_parallel|ring_attn|ring_attention|ulysses|attn_with_cp|sequence_parallel/(?:ring|layer)",
            re.IGNORECASE,
        ),
    ),
    (
        "tp",
        re.compile(
            r"tensor_parallel|on_this_tp_rank|tensor_model_parallel|_along_(?:first|last)_dim|vocab_parallel|(?:Row"
            r"|Column)Parallel|\btp_",
            re.IGNORECASE,
        ),
    ),
    (
        "dp",
        re.compile(
            r"data_parallel|grad(?:ient)?s?_?sync|param_and_grad_buffer|finalize_model_grads|_?fsdp|zero/stage"
            r"|stage_?[123]|reduce_gradients|distrib_optimizer|distributed_optimizer|allreduce_gradients|ddp",
            re.IGNORECASE,
        ),
    ),
)
_TO_PREV = re.compile(
    r"recv_forward(?!_)|send_backward(?!_)|send_backward_recv_forward|recv_activation|send_grads?|_recv_prev"
    r"|recv_prev|fwd_recv|get_fwd_recv",
    re.IGNORECASE,
)
_TO_NEXT = re.compile(
    r"recv_backward|send_forward(?!_)|send_forward_recv_backward|recv_grads?|send_activation|send_next|bwd_recv"
    r"|get_bwd_recv",
    re.IGNORECASE,
)
_READ_NAME = re.compile(
    r"^(?:read|write|pread|pwrite|fsync|open|close|stat|poll|select|epoll_wait|futex|nanosleep|clock_nanosleep"
    r"|sleep|acquire|wait|get|put|join|lock|flock|recv|recv_into|send|connect|accept|readinto|readline)$"
)


#: Callers of a call that may name its dimension, the call among them.
_MAX_CALLERS: Final = 7
_STRICT: Final = 2
_LOOSE: Final = 1


@lru_cache(maxsize=4096)  # ranks wait in the same few frames
def _communicates(frame: Frame) -> int:
    """2 for a call of a communication library or named after a collective, 1 for code around one (gradient sync),
    else 0."""
    if frame.is_native:
        return _STRICT if _COMM_NATIVE.search(frame.function) else 0
    is_own_machine = "multiprocessing/" in frame.file or frame.base in {"socket.py", "connection.py", "ssl.py"}
    if is_own_machine:
        return 0
    if _is_collective(frame):
        return _STRICT
    return _LOOSE if _is_around_collective(frame) else 0


def _is_collective(frame: Frame) -> bool:
    """Whether a frame of Python is named after a collective, or waits in a module about communication."""
    if _COLLECTIVE.search(frame.name):
        return True
    is_library_call = "distributed_c10d" in frame.file or bool(_SHORT_COLLECTIVE.match(frame.name))
    if is_library_call and _COMM_FILE.search(frame.file):
        return True
    return bool(_PARALLEL_FILE.search(frame.file) and _WAITING_NAME.search(frame.name))


def _is_around_collective(frame: Frame) -> bool:
    """Whether a frame is code whose wait can only be one for peers: a layer that waits (ring attention, pipelined
    experts), a gradient sync, an exchange in a module about parallelism.
    """
    if _BARE_WAIT.match(frame.name) and _COMPUTE.search(frame.file):
        return True
    if _GRAD_SYNC.search(frame.name):
        return True
    return bool(_PARALLEL_FILE.search(frame.file) and _EXCHANGING_NAME.search(frame.name))


def _innermost_call(frames: tuple[Frame, ...]) -> int | None:
    """The innermost strict communication call: frames above it (a logger, a callback) run inside it."""
    return next((at for at, f in enumerate(frames) if _communicates(f) == _STRICT), None)


def call_site(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Compared frames without the varying ones inside one communication call. A rank that waits in a receive is in
    ``batch_isend_irecv`` or in ``wait``, sometimes with a callback on top. From the innermost strict call on, the
    library's frames are skipped up to the one that the framework called.
    """
    start = _innermost_call(frames)
    if start is None:
        return frames
    at = start
    for further in range(start + 1, len(frames)):
        frame = frames[further]
        if _communicates(frame) == _STRICT or _COMM_FILE.search(frame.file):
            if not _INTERPRETER_WAIT.search(frame.file):
                at = further
        elif not _INTERPRETER_WAIT.search(frame.file):
            break
    return frames[at:]


def _dimension(frames: tuple[Frame, ...], start: int) -> tuple[str, str]:
    """The group that the call at ``start`` waits for: the nearest caller that names a dimension; and of a pipeline, to
    which neighbour the call is.
    """
    dim = ""
    for frame in frames[start : start + _MAX_CALLERS]:
        dim = dim or _named_dimension(frame)
        if dim and dim != "pp":
            return dim, ""
        neighbour = _named_neighbour(frame.name) if dim else ""
        if neighbour:
            return dim, neighbour
    return dim, ""


def _named_dimension(frame: Frame) -> str:
    named = f"{frame.file}:{frame.name}"
    return next((dim for dim, pattern in _DIMENSIONS if pattern.search(named)), "")


def _named_neighbour(name: str) -> str:
    if _TO_PREV.search(name):
        return "prev"
    return "next" if _TO_NEXT.search(name) else ""


def activity(frames: tuple[Frame, ...]) -> Activity:
    """The activity of a stack (innermost first). The innermost known frame decides; O(frames)."""
    if not frames:
        return Activity(NOTHING, "no frames")
    call = _innermost_call(frames)
    if call is not None:
        return _waiting_in(frames, call)
    device: Activity | None = None
    for at, frame in enumerate(frames):
        if _communicates(frame):
            return _waiting_in(frames, at)
        if _waits_for_device(frame):
            device = device or Activity(DEVICE, f"waiting for its GPU in {frame.name}", frame=frame.label)
            if not frame.is_native:  # a native wait may belong to a collective: the caller decides
                return device
        elif not frame.is_native and not _INTERPRETER_WAIT.search(frame.file):
            return _known_activity(frame) or device or Activity(LOCAL, f"in {frame.name}", frame=frame.label)
    return device or _activity_of_unknown(frames[0])


def _waiting_in(frames: tuple[Frame, ...], at: int) -> Activity:
    """The wait for peers in the call at this place, named by the first frame of Python from there on."""
    dim, to = _dimension(frames, at)
    python = (frame.name for frame in frames[at:] if not frame.is_native)
    name = next(python, frames[at].name)
    return Activity(COMM, f"in {name}", dim, to, frames[at].label)


def _waits_for_device(frame: Frame) -> bool:
    is_of_device = frame.is_native or bool(_DEVICE_FILE.search(frame.file))
    return is_of_device and bool(_DEVICE.search(frame.name))


def _known_activity(frame: Frame) -> Activity | None:
    """What a frame of Python outside the interpreter's own modules does, if a rule knows it."""
    for what, file, name in _HOST_WORK:
        is_file = file is None or bool(file.search(frame.file))
        if is_file and (name is None or name.search(frame.name)):
            return Activity(HOST, what, frame=frame.label)
    if _COMPUTE.search(frame.file) or _COMPUTE_NAME.search(frame.name):
        return Activity(COMPUTE, f"computing in {frame.name}", frame=frame.label)
    return None


def _activity_of_unknown(first: Frame) -> Activity:
    """The activity of a stack without a known frame, by its innermost one."""
    kind = HOST if _READ_NAME.match(first.name) else LOCAL
    return Activity(kind, f"in {first.name}", frame=first.label)
