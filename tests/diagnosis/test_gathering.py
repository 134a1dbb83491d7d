"""Evidence on disk: names, links, copies, limits."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from diagnosis.files.gathering import gather
from diagnosis.kinds.logs.columns.sources import from_path


def tar_of(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_raw_bytes_of_members_are_read_by_offset(tmp_path: Path) -> None:
    (tmp_path / "job.tar.gz").write_bytes(
        tar_of({"logs/n1.log": b"one\ntwo\n", "n2.log.gz": gzip.compress(b"three\n")})
    )
    work = tmp_path / "work"
    work.mkdir()
    found = gather([tmp_path / "job.tar.gz"], work)
    assert sorted(parsed.path for parsed in found.parsed) == ["logs/n1.log", "n2.log.gz"]
    assert found.read("logs/n1.log", 4, 3) == b"two"
    assert found.read("n2.log.gz", 0, 100) == b"three\n"
    assert found.read("unknown", 0, 1) == b""


def test_links_are_left_out_and_reported(tmp_path: Path) -> None:
    folder, work = tmp_path / "job", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    (folder / "a.log").write_text("x\n", encoding="utf-8")
    (folder / "passwd").symlink_to("/etc/passwd")
    found = gather([folder], work)
    assert [parsed.path for parsed in found.parsed] == ["a.log"]
    assert found.problems[0][0] == "passwd"


def test_two_arguments_with_one_name_are_distinguished(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.log").write_text(f"from {name}\n", encoding="utf-8")
    found = gather([tmp_path / "a", tmp_path / "b"], work)
    assert [parsed.path for parsed in found.parsed] == ["x.log", "b/x.log"]
    assert found.read("b/x.log", 0, 6) == b"from b"


PATHS = {
    "logs/node-0012.log": ("node-0012", None, None, None),
    "logs/gpu-node-03/gpt_kthpgz50/attempt_1/0/stderr.log": ("gpu-node-03", None, 0, 1),
    "sys/hgx001.syslog": ("hgx001", None, None, None),
    "var/dgx-7-dmesg.txt": ("dgx-7", None, None, None),
    "rank_17.log": (None, 17, None, None),
    "worker-3/rank12.err.gz": ("worker-3", 12, None, None),
    "launcher.log": (None, None, None, None),
    "result_1.log": (None, None, None, None),
    "10.0.0.7/train.log": ("10.0.0.7", None, None, None),
    "slurm-123.out": (None, None, None, None),
}


@pytest.mark.parametrize("path", PATHS)
def test_what_a_path_says_of_its_writer(path: str) -> None:
    says = from_path(path)
    assert (says.node, says.rank, says.local_rank, says.attempt) == PATHS[path]


def test_small_members_share_a_file_and_their_tables(tmp_path: Path) -> None:
    members = {f"rank-{n}.log": b"iteration %d loss 2.5\n" % n for n in range(100)}
    (tmp_path / "job.tar.gz").write_bytes(tar_of(members))
    work = tmp_path / "work"
    work.mkdir()
    found = gather([tmp_path / "job.tar.gz"], work)
    assert {parsed.path: found.read(parsed.path, 0, 1000) for parsed in found.parsed} == members
    assert sum(file.is_file() for file in work.rglob("*")) <= 5
