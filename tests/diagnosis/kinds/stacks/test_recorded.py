"""Recorded and published dumps. They are next to the repository; without them these tests are skipped with that
reason.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from diagnosis.kinds.stacks import sniff
from diagnosis.kinds.stacks.read.stack_frames import unpack
from diagnosis.model import Kind, Parsed
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks.simulate import parse

DATA = Path(os.environ.get("FAULTLINE_SHARED", Path(__file__).resolve().parents[5] / "shared")) / "data"


def need(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path} is not there; set FAULTLINE_SHARED")
    return path


@pytest.mark.parametrize("archive", ["samples/hang_dataloader.tar.gz", "shared"])
def test_the_rank_whose_loader_waits_for_a_shard_is_named_with_its_node_and_thread(archive):
    here = Path(__file__).resolve().parents[4] / archive
    path = need(DATA / "testbed" / "hang_dataloader.tar.gz") if archive == "shared" else here
    if not path.exists():
        pytest.skip("this sample is not part of the repository")
    parsed = []
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and "/stacks/" in member.name:
                data = tar.extractfile(member).read()
                if sniff(data[:65536], member.name):
                    parsed.append(parse(data, member.name))
    got = stacks_json(parsed)
    assert got["suspect_ranks"] == [5]
    assert got["suspect_nodes"] == ["gpu-node-02"]
    assert (got["rounds"], len({r["rank"] for r in got["ranks"]})) == (2, 8)
    assert any("data-prefetch" in reason for reason in got["suspects"][0]["reasons"])


def practice():
    folder = DATA / "practice" / "stacks"
    return sorted(folder.glob("*.zip")) if folder.is_dir() else []


@pytest.mark.skipif(not practice(), reason="no practice sets beside the repository; set FAULTLINE_SHARED")
@pytest.mark.parametrize("with_layout", [True, False], ids=["layout file", "no layout file"])
@pytest.mark.parametrize("path", practice(), ids=lambda p: p.stem)
def test_practice_sets_give_the_culprits_and_an_eviction_that_covers_them(path, with_layout):
    truth = json.loads((DATA / "practice" / "truth" / "stacks" / f"{path.stem}.json").read_text())
    parsed = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if name.endswith("layout.json"):
                parsed += [Parsed(path=name, kind=Kind.LAYOUT, facts={"json": json.loads(data)})] if with_layout else []
            elif sniff(data[:65536], name):
                parsed.append(parse(data, name))
    got = stacks_json(parsed)
    assert sorted(got["suspect_ranks"]) == sorted(truth["suspect_ranks"])
    assert sorted(got["suspect_nodes"]) == sorted(truth["suspect_nodes"])
    assert set(truth["suspect_ranks"]) <= set(got["evict_ranks"])


@pytest.mark.parametrize(
    ("name", "processes", "innermost"),
    [
        ("pyspy_dump.txt", 1, "all_reduce"),
        ("pyspy_dump.json", 1, "all_reduce"),
        ("pyspy_locals.txt", 1, "all_reduce"),
        ("pyspy_sub.txt", 2, "all_reduce"),
        ("pyspy_native.txt", 1, "clock_nanosleep"),
        ("faulthandler.txt", 1, "all_reduce"),
        ("pystack.txt", 1, "all_reduce"),
        ("gdb_bt.txt", 1, "__GI___clock_nanosleep"),
    ],
)
def test_published_samples_of_every_tool_are_read(name, processes, innermost):
    data = need(DATA / "stacks" / name).read_bytes()
    assert sniff(data[:65536], name)
    dumps = unpack(parse(io.BytesIO(data).read(), name).facts)
    assert len(dumps) == processes
    assert dumps[0].main().frames[0].name == innermost
    assert all(len(d.threads) == 2 for d in dumps)
