"""Reports on recordings of real training; each sample is read and diagnosed once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from diagnosis import report
from diagnosis.files.gathering import gather
from diagnosis.pipeline import diagnose

SAMPLES = Path(__file__).parents[3] / "samples"


def reported(work: Path, *paths: Path) -> dict[str, Any]:
    """The report on the evidence below these paths, which is unpacked in the folder ``work``."""
    work.mkdir(exist_ok=True)
    evidence = gather(list(paths), work)
    try:
        return report.to_json(diagnose(evidence.parsed, read=evidence.read))
    finally:
        evidence.close()


@pytest.fixture(scope="session")
def report_on(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """``report_on("sigkill_rank5")``: the report on that sample."""

    @cache
    def of(name: str) -> dict[str, Any]:
        return reported(tmp_path_factory.mktemp(name), SAMPLES / f"{name}.tar.gz")

    return of
