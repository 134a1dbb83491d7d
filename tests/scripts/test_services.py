"""PostgreSQL for tests starts wherever the checkout lies."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scripts.services import _runs


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as somebody else")
def test_a_program_in_a_folder_that_others_may_not_enter_is_none_that_they_can_run(tmp_path: Path) -> None:
    program = tmp_path / "true"
    shutil.copy(shutil.which("true") or "", program)
    tmp_path.chmod(0o700)
    assert not _runs(program, "nobody")
    assert _runs(Path(shutil.which("true") or ""), "nobody")
