"""Which stage of a job a line speaks of: launch, rendezvous, model_build, checkpoint_load, training, evaluation,
checkpoint_save, shutdown.

Markers name what is begun or ended in words that frameworks share ("loading checkpoint", "number of parameters",
"evaluating"), not the lines of one framework. Stage of a traceback comes from the functions on its frames, which is
surer than the last marker before it.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from diagnosis.model import STAGES

BEFORE_TRAINING: Final = frozenset(STAGES[:4])

#: (stage, is_end, pattern), the first that matches a message decides. Linear-time dialect, case folded.
_MARKERS: Final = (
    (
        "shutdown",
        False,
        r"training (is )?(completed?|done|finished)\b|after training is done|finished training|training took\b"
        r"|\btrain(ing)? runtime"
        r"|run_stop\b|trainer\.fit.{0,12}stopped|destroy_process_group|exits successfully|exiting program"
        r"|max_steps=?.{0,12}reached",
    ),
    (
        "checkpoint_save",
        True,
        r"(success\w*|finished|done|completed?)\s.{0,20}sav(ed|ing).{0,40}(checkpoint|state|model)|(checkpoint"
        r"|model state)\w*\b.{0,60}\b(saved|written)\b|\bsaved (a )?(the )?(checkpoint|model|state)"
        r"|save.checkpoint time|checkpoint save (is )?(complete|done)",
    ),
    (
        "checkpoint_save",
        False,
        r"\b(saving|writing|dumping|storing|staging)\b.{0,40}(checkpoint|ckpt|model state|optimizer state"
        r"|state.?dict)|begin.{0,12}sav.{0,20}(checkpoint|ckpt)|save_checkpoint|checkpoint_start",
    ),
    (
        "checkpoint_load",
        True,
        r"(success\w*|finished|done|completed?)\s.{0,20}(load|restor|resum)\w*.{0,40}(checkpoint|state|weights"
        r"|ckpt)|\b(checkpoint|weights|ckpt)\w*\b.{0,60}\b(loaded|restored)\b|\b(loaded"
        r"|restored)\b.{0,40}(checkpoint|weights|ckpt|model states)|load.checkpoint time|resum(ed|ing) (from|at"
        r"|training)",
    ),
    (
        "checkpoint_load",
        False,
        r"\b(loading|restoring|reading|read|fetching|resuming)\b.{0,40}(checkpoint|ckpt|pretrained|weights|model "
        r"states|state.?dict)|attempting to load|load_checkpoint|loading (states|distributed)",
    ),
    (
        "evaluation",
        True,
        r"(validation|evaluation|eval)\b.{0,30}\b(finished|done|completed?|ended|took)\b|eval_stop\b|(validation"
        r"|eval\w*) (loss|accuracy|results?) at\b|end.{0,10}(evaluation|validation)\b",
    ),
    (
        "evaluation",
        False,
        r"\bevaluating\b|\brunning (the )?(evaluation|validation)|(start\w*|begin\w*"
        r"|running)\b.{0,16}(evaluation|validation|eval\b)|eval_start\b|validation dataloader|\bvalidating\b",
    ),
    (
        "training",
        False,
        r"^\W*training\W*$|(start(ing|ed)?|begin(ning|s)?|before the start of|entering"
        r"|commenc\w+)\b.{0,24}\btrain(ing)?\b|training (starts|started|begins|loop)|\brun_start\b"
        r"|\bepoch_start\b|\bblock_start\b|\*{3,}\s*running training|\bnum (examples|epochs|update steps)\b"
        r"|start(ing)? (the )?(first )?(epoch|iteration|step)\b",
    ),
    (
        "model_build",
        False,
        r"number of (trainable )?param|(building|initializ(ing|ed)|creating|instantiat\w+|constructing"
        r"|compil(ing|ed)|wrapping)\b.{0,40}\b(model|network|module|optimizer|tokenizer|data.?loaders?|data "
        r"?sets?|megatron|engine|lr.scheduler|vocab)"
        r"|(model|optimizer|data ?sets?|dataloader|tokenizer|engine)\b.{0,30}\b(built|created|initialized"
        r"|configured|ready)|time to initialize|setting up (model|data|optimizer)|total param|trainable params"
        r"|\b(model )?param(eter)?s?\b ?[:=]? ?(<num>|[\d.,]+) ?(b|m|billion|million)\b"
        r"|contains (<num>|[\d.]+) ?[bm]?\w* param"
        r"|init_start|init_stop|loading (the )?(data ?set|tokenizer|vocab|index|corpus|documents)|applied (fsdp"
        r"|ddp|fully|activation|tensor|compil)",
    ),
    (
        "rendezvous",
        False,
        r"rendezvous'?ing|rendezvous (backend|handler|complete)|init_process_group|initializ(e|ing"
        r"|ed)\b.{0,24}(torch.?distributed|process group|communicat|hccl|nccl|mpi)|initcomm|comminit|\bbootstrap "
        r"?:|tcpstore|waiting for clients|device.?mesh|joined the rendezvous|master_addr|distributed init|client "
        r"socket has failed|gang not ready|using network|hccl init|communicator (created|init)",
    ),
    (
        "launch",
        False,
        r"starting (elastic|job|container|workers?|pod)|spawned with command|omp_num_threads|launch config"
        r"|entrypoint\s*:|world info dict|nnodes=|num_local_procs|dist_world_size|started container"
        r"|successfulcreatepod|created \d+ worker|queued and waiting|has been allocated|launching|cmd ?= ?\["
        r"|=====\s*job|submission_|cluster\b.{0,10}\"value\"",
    ),
)

#: Functions on a traceback's frames, innermost decides; (stage, pattern).
_FRAMES: Final = (
    (
        "checkpoint_save",
        r"save_checkpoint|save_model|checkpoint\w*\.save|dist_checkpointing/.*save|\bin _*save\b|async_save"
        r"|_write_item|save_state|\bsave_pretrained",
    ),
    (
        "checkpoint_load",
        r"load_checkpoint|restore_checkpoint|checkpoint\w*\.load|\bin _*(load|restore|load_state_dict|resume\w*)\b"
        r"|_load_base_checkpoint|from_pretrained|load_pretrained",
    ),
    (
        "evaluation",
        r"\bin _*(evaluate|evaluation_loop|validate|validation_step|eval_step|run_eval\w*"
        r"|evaluate_and_print_results)\b",
    ),
    (
        "training",
        r"\bin _*(train_step|training_step|train_one_epoch|train_epoch|forward_backward\w*|forward_step"
        r"|backward_step|optimizer_step|_inner_training_loop|run_training|train_batch|backward|run_backward"
        r"|__next__|next_batch|get_batch|run_pipeline|custom_backward|step|train)\b",
    ),
    (
        "rendezvous",
        r"init_process_group|\bin _*(initialize_distributed|init_distributed|_?rendezvous\w*|_create_c10d_store"
        r"|new_group|initialize_model_parallel|\w*init_hccl|hccl_init|next_rendezvous|init_parallel_env|init_dist\w*|initialize_dist\w*"
        r"|\w*create_\w*store\w*|launch_from_\w+)\b",
    ),
    (
        "model_build",
        r"\bin _*(setup_model\w*|get_model|build_\w*|model_provider|initialize_megatron|create_(model|optimizer"
        r"|dataset\w*|dataloader\w*)|prepare_\w*data\w*|train_valid_test_datasets_provider|get_tokenizer"
        r"|configure_model|setup|init_model\w*|load_model|create_network|init_weights|\w*device_mesh|setup_mesh\w*)\b",
    ),
    (
        "launch",
        r"\bin _*(parse_args|_?parse_known_args|validate_args|load_config|_batch_assertion"
        r"|_configure_train_batch_size|load_cfg|parse_json_file|parse\w*_args\w*|validate_keys|parse_config\w*|sanity_check)\b|<module>.*import|_find_and_load|config\.py",
    ),
)


def mark(messages: pl.DataFrame) -> pl.DataFrame:
    """Which messages are stage markers: ``masked``, ``stage``, ``is_end``. One vectorised search a pattern over
    unique messages."""
    folded = messages.select("masked", text=pl.col("text").str.head(400).str.to_lowercase())
    expr = pl.lit(None, dtype=pl.Int32)
    for place, (_, _, pattern) in reversed(list(enumerate(_MARKERS))):
        expr = pl.when(pl.col("text").str.contains(pattern)).then(pl.lit(place, dtype=pl.Int32)).otherwise(expr)
    is_frame = pl.col("text").str.contains(r'^\W*file "|^\s*at |traceback|#\d+ |^\W*\^+\W*$')
    is_bad = pl.col("text").str.contains(r"\b(fail(ed|ure)?|error|exception|cannot|unable|warn(ing)?|not called)\b")
    marked = folded.select("masked", place=pl.when(is_frame | is_bad).then(None).otherwise(expr)).drop_nulls("place")
    return marked.select(
        "masked",
        stage=pl.col("place").replace_strict(range(len(_MARKERS)), [m[0] for m in _MARKERS], return_dtype=pl.String),
        is_end=pl.col("place").replace_strict(range(len(_MARKERS)), [m[1] for m in _MARKERS], return_dtype=pl.Boolean),
    )


def of_frames(lines: list[str]) -> str | None:
    """The stage that the frames of a traceback tell: of its rules the surest that any frame names, innermost frames
    first in doubt."""
    for stage, pattern in _FRAMES:
        if any(re.search(pattern, line, re.IGNORECASE) for line in lines):
            return stage
    return None


def after_end(stage: str, trained: bool) -> str:
    """What goes on when ``stage`` has ended: training, if it had begun; else the preparations that follow."""
    if stage in ("checkpoint_save", "evaluation"):
        return "training"
    return "training" if trained else "model_build"
