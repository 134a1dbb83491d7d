"""The library that raised an exception classifies it if its message does not."""

from __future__ import annotations

import pytest

from diagnosis.kinds.logs.meaning import frames

SITE = "/opt/env/lib/python3.11/site-packages"


def traceback(*places: str) -> str:
    """The text of a traceback above its exception, outermost frame first; places are ``path:function``."""
    lines = ["Traceback (most recent call last):"]
    for place in places:
        path, _, name = place.rpartition(":")
        lines += [f'  File "{path}", line 7, in {name}', "    call()"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("innermost", "category"),
    [
        (f"{SITE}/aiohttp/helpers.py:__exit__", "platform.storage.outage"),
        (f"{SITE}/torch/serialization.py:_load", "framework.checkpoint"),
        (f"{SITE}/PIL/Image.py:open", "user.data.invalid"),
        ("/usr/lib/python3.11/argparse.py:error", "user.config.argument"),
        (f"{SITE}/omegaconf/base.py:_format_and_raise", "user.config.invalid"),
        (f"{SITE}/torch/distributed/rendezvous.py:_env_rendezvous_handler", "framework.rendezvous"),
        ("<frozen importlib._bootstrap>:_find_and_load", "user.environment.import"),
    ],
)
def test_the_library_at_the_innermost_frame_shows_the_cause(innermost: str, category: str) -> None:
    assert frames.category_of_frames(traceback("/team/train.py:main", innermost)) == category


def test_an_exception_of_the_programs_own_code_is_not_put_on_the_library_that_called_it() -> None:
    text = traceback(f"{SITE}/torch/utils/data/dataset.py:get", f"{SITE}/PIL/Image.py:open", "/team/data.py:decode")
    assert frames.category_of_frames(text) is None


def test_a_function_of_the_program_that_loads_checkpoints_tells_it_by_its_name() -> None:
    assert (
        frames.category_of_frames(traceback("/team/train.py:main", "/team/state.py:load_checkpoint"))
        == "framework.checkpoint"
    )


def test_frames_that_only_carry_an_exception_are_passed_over() -> None:
    carried = (
        f"{SITE}/s3fs/core.py:_call",
        "/usr/lib/python3.11/asyncio/tasks.py:wait_for",
        f"{SITE}/ray/_private/worker.py:get",
    )
    assert frames.category_of_frames(traceback("/team/train.py:main", *carried)) == "platform.storage.outage"


def test_only_the_last_traceback_counts() -> None:
    first = traceback("/team/train.py:main", f"{SITE}/PIL/Image.py:open") + "OSError: broken\n\n"
    assert frames.category_of_frames(first + traceback("/team/train.py:main", "/team/model.py:forward")) is None


def test_headers_of_ranks_in_front_of_frames_do_not_hide_them() -> None:
    text = "".join(f"[rank3]: {line}\n" for line in traceback(f"{SITE}/h5py/_hl/files.py:make_fid").splitlines())
    assert frames.category_of_frames(text) == "user.data.invalid"


def test_text_without_frames_proves_nothing() -> None:
    assert frames.frames("ValueError: x\nloss 2.1\n") == []
    assert frames.category_of_frames("") is None
