"""One line of every layout: time, writer, level and message."""

import datetime
import io
from pathlib import Path

import polars as pl
import pytest

from diagnosis import Level, ParseHints, parse

NONE, DEBUG, INFO, WARNING, ERROR, FATAL = Level
UTC = datetime.UTC


def at(*parts: int) -> int:
    """Nanoseconds of a UTC time given as year, month, day, hour, minute, second, microsecond."""
    delta = datetime.datetime(*parts, tzinfo=UTC) - datetime.datetime(1970, 1, 1, tzinfo=UTC)  # type: ignore[misc,arg-type]
    return delta // datetime.timedelta(microseconds=1) * 1000


def only(line: str, tmp_path: Path, path: str = "job.log", **hints: object) -> dict[str, object]:
    """The one row that ``line`` becomes, with its source and masked text."""
    parsed = parse(io.BytesIO(line.encode() + b"\n"), path, ParseHints(**hints), tmp_path)  # type: ignore[arg-type]
    assert parsed.columns is not None and parsed.uniques is not None, parsed.skipped
    row = pl.read_parquet(parsed.columns).row(0, named=True)
    source = parsed.sources[row["source"]]
    text = pl.read_parquet(parsed.uniques)["text"][0]
    return {**row, "node": source.node, "rank": source.rank, "local": source.local_rank, "text": text}


T = at(2026, 3, 1, 8, 0, 0)
TIMES = {
    "2026-03-01 08:00:00,250 x": T + 250_000_000,
    "[2026-03-01 08:00:00.000250] x": T + 250_000,
    "2026-03-01T08:00:00Z x": T,
    "2026-03-01T09:00:00.5+01:00 x": T + 500_000_000,
    "2026-03-01T02:30:00-0530 x": T,
    "2026-03-01T08:00:00.123456789Z stderr F x": T + 123_456_789,
    "2026-03-01_08:00:00 x": T,
    "2026-03-01,08:00:00 | INFO | Rank 0 | x": T,
    "2026/03/01 08:00:00 x": T,
    "26/03/01 08:00:00 INFO x": T,
    "03/01/2026 08:00:00 AM x": T,
    "[03/01/26 08:00:00] INFO x": T,
    "ENDING RUN AT 2026-03-01 08:00:00 PM": at(2026, 3, 1, 20, 0, 0),
    "[Sun Mar  1 08:00:00 2026] x": T,
    "[Sun Mar 01 08:00:00 2026] [error] x": T,
    "Sun Mar  1 08:00:00 UTC 2026: x": T,
    "Mar/01/2026 08:00:00 - INFO - x": T,
    "Mar 01, 2026 08:00:00 x": T,
    "01 Mar 2026 08:00:00.250 # x": T + 250_000_000,
    "01-Mar-2026 08:00:00 x": T,
    "2026 Mar  1 08:00:00.250 leaf-3 %PORT-3-DOWN: x": T + 250_000_000,
    '10.1.2.3 - - [01/Mar/2026:09:00:00 +0100] "GET /"': T,
    "[ERROR] HCCL(4711,python3):2026-03-01-08:00:00.250.001 [transport.cc:12][4711]x": T + 250_000_000,
    ':::MLLOG {"namespace": "", "time_ms": 1772352000000, "key": "x", "value": 1}': T,
    "1772352000.25 x": T + 250_000_000,
    "[rank1]:[E20260301 08:00:00.000000250 7 a.cpp:1] x": T + 250,
    "x and nothing": None,
    "[ 1234.567890] mlx5_core 0000:3b:00.0: link down": None,
}


@pytest.mark.parametrize("line", TIMES)
def test_time_styles(line: str, tmp_path: Path) -> None:
    assert only(line, tmp_path)["time"] == TIMES[line]


@pytest.mark.parametrize("code", ["EI0002", "EZ9999", "ERR02200"])
def test_the_code_of_an_error_is_no_machine(code: str, tmp_path: Path) -> None:
    assert only(f"{code}: [PID: 4845] The wait execution of the Notify register times out.", tmp_path)["node"] is None


def test_a_container_stamp_with_zone_wins_over_the_local_one_behind_it(tmp_path: Path) -> None:
    line = "2026-03-01T08:00:00.5Z worker-3: [2026-03-01 16:00:00,500] [INFO] [a.py:1:f] x"
    assert only(line, tmp_path, time_zone="Europe/Berlin")["time"] == T + 500_000_000


def test_a_stamp_without_zone_is_read_in_the_zone_that_was_given(tmp_path: Path) -> None:
    assert only("2026-03-01 09:00:00 x", tmp_path, time_zone="Europe/Berlin")["time"] == T


def test_a_stamp_without_year_takes_the_year_of_the_others(tmp_path: Path) -> None:
    text = b"Feb 29 23:00:00 n1 kernel: a\n2028-03-01 08:00:00 b\n[W301 x\nI0301 08:00:00.000000 7 a.py:1] c\n"
    parsed = parse(io.BytesIO(text), "a.log", ParseHints(), tmp_path)
    assert parsed.columns
    times = pl.read_parquet(parsed.columns)["time"].to_list()
    later = at(2028, 3, 1, 8, 0, 0)
    assert times == [at(2028, 2, 29, 23, 0, 0), later, None, later]


WRITERS = {
    "[rank7]: x": (None, 7, None),
    "404: [rank404]: x": (None, 404, None),
    "  12: x": (None, 12, None),
    "[default3]:[rank11]: x": (None, 11, 3),
    "x4001c13s1b0n0 26: KeyError: 'x'": ("x4001c13s1b0n0", 26, None),
    "Epoch 26: x": (None, None, None),
    "layer1 26: x": (None, None, None),
    "[2026-03-01T08:00:00.114] epilog[81]: gpu-33: x": ("gpu-33", None, None),
    "[2026-03-01T08:00:00.114] epilog[81]: error: x": (None, None, None),
    "worker-1: x": ("worker-1", None, None),
    "node12: [2026-03-01 08:00:00] [rank9] x": ("node12", 9, None),
    "2026-03-01T08:00:00Z gpu-7.cluster.local: x": ("gpu-7.cluster.local", None, None),
    "10.0.0.7: x": ("10.0.0.7", None, None),
    "web-0  | x": ("web-0", None, None),
    "[pod/llama-worker-3/pytorch] x": ("llama-worker-3", None, None),
    "[1,5]<stderr>:x": (None, 5, None),
    "hgx-4:812:990 [2] NCCL INFO comm 0x1 rank 34 nranks 64": ("hgx-4", None, None),
    "Mar  1 08:00:00 dgx-2 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1": ("dgx-2", None, None),
    "2026-03-01T08:00:00.000000+00:00 dgx-2 kernel: [  12.500000] oops": ("dgx-2", None, None),
    "srun: error: dgx-5: task 40: Killed": ("dgx-5", None, None),
    "epoch3: loss 2.1": (None, None, None),
    "cuda:0: out of memory": (None, None, None),
    "urllib3.connectionpool: WARNING retrying": (None, None, None),
    "loss 2.1": (None, None, None),
}


@pytest.mark.parametrize("line", WRITERS)
def test_writers_of_lines(line: str, tmp_path: Path) -> None:
    row = only(line, tmp_path)
    assert (row["node"], row["rank"], row["local"]) == WRITERS[line]


LEVELS = {
    "[2026-03-01 08:00:00] [ERROR] x": ERROR,
    "ERROR:root:x": ERROR,
    "2026-03-01 08:00:00.000 | WARNING  | a:f:1 - x": WARNING,
    "[NeMo W 2026-03-01 08:00:00 a:1] x": WARNING,
    "E0301 08:00:00.000000    7 a.go:1] x": ERROR,
    "[rank1]:[F301 08:00:00.000000001 a.cpp:1] x": FATAL,
    "2026-03-01 08:00:00.000001: F core/kernels/geop.cc:766] x": FATAL,
    "2026-03-01 08:00:00.000001: E core/kernels/geop.cc:766] x": NONE,
    "2026-03-01 08:00:00.000001: W core/kernels/geop.cc:766] x": WARNING,
    'time="2026-03-01T08:00:00Z" level=error msg="x"': ERROR,
    "08:00:00.125 [I] [process=0] creating w.tmp": INFO,
    "libfabric:77:1751035971::core:core:ofi_hmem_init():339<warn> Failed to initialize hmem": WARNING,
    "libfabric:77:1751035971::core:core:fi_getinfo_():1185<info> provider udp returned -61": INFO,
    'time="2026-03-01 08:00:00.000" lvl=warn rank=26 msg="x"': WARNING,
    'ts=2026-03-01T08:00:00Z severity="error" msg="x"': ERROR,
    "kern  :crit  : [Sun Mar  1 08:00:00 2026] x": FATAL,
    "RuntimeError: x": ERROR,
    "torch.OutOfMemoryError: CUDA out of memory.": ERROR,
    "[rank1]: Traceback (most recent call last):": ERROR,
    "a.py:3: UserWarning: x": WARNING,
    "iteration 3 error_rate 0.2": NONE,
    "DEBUG x": DEBUG,
    "zeit=01.03.2026-08:00:00,000 stufe=FEHLER rang=0 x": ERROR,
    "[2026-03-01 08:00:00] [错误] x": ERROR,
    "[2026-03-01 08:00:00] [警告] x": WARNING,
    "1772352000.000;🔴;n1/0;r0;x": ERROR,
    "[2026-03-01 08:00:00] 错误码 0 x": NONE,
    "[INFO|trainer.py:9] 2026-03-01 08:00:00,000 >> x": INFO,
}


@pytest.mark.parametrize("line", LEVELS)
def test_levels_of_lines(line: str, tmp_path: Path) -> None:
    assert only(line, tmp_path)["level"] == LEVELS[line]


MESSAGES = {
    "2026-03-01T08:00:00Z node-3: [2026-03-01 08:00:00,1] [INFO] [a.py:12:f] read 3 files": (
        "[a.py:<NUM>:f] read <NUM> files"
    ),
    "NVRM: Xid (PCI:0000:9b:00): 79, pid=2187, GPU has fallen off the bus.": (
        "NVRM: Xid (PCI:<PCI>): 79, pid=<NUM>, GPU has fallen off the bus."
    ),
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up": (
        "nvidia-nvswitch<NUM>: SXid (PCI:<PCI>): 20034, Fatal, Link <NUM> LTSSM Fault Up"
    ),
    "worker pid 71 exited with code 137": "worker pid <NUM> exited with code 137",
    "Signal 9 (SIGKILL) received by PID 4711": "Signal 9 (SIGKILL) received by PID <NUM>",
    "[Errno 28] No space left on device: '/data/ckpt/a.pt'": "[Errno 28] No space left on device: '<PATH>'",
    'GET /v1/x HTTP/1.1" 503 from 10.0.0.7:8080': 'GET <PATH> HTTP/<NUM>" 503 from <IP>',
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=5)": "WorkNCCL(SeqNum=<NUM>, OpType=ALLREDUCE, NumelIn=<NUM>)",
    "comm 0x7f3ab1 id 9f8e7d6c-1a2b-3c4d-5e6f-7a8b9c0d1e2f": "comm <NUM> id <NUM>",
    "loss: -1.5e-07 grad 2.303041E+00 at 12%": "loss: <NUM> grad <NUM> at <NUM>%",
    " 45%|####      | 45/100 [00:12<00:15, 3.6it/s]RuntimeError: boom": "RuntimeError: boom",
    "[rank1]: step done[rank2]: RuntimeError: boom 7": "RuntimeError: boom <NUM>",
    "fetched s3://bucket/key-7.bin in 3 s": "fetched <URL> in <NUM> s",
}


@pytest.mark.parametrize("line", MESSAGES)
def test_masked_messages(line: str, tmp_path: Path) -> None:
    assert only(line, tmp_path)["text"] == MESSAGES[line]


def test_measurements_behind_the_word_error_are_no_codes(tmp_path: Path) -> None:
    assert only("mean error: 0.125 over 7 steps", tmp_path)["text"] == "mean error: <NUM> over <NUM> steps"
    assert only("error code: 507035, rank 3", tmp_path / "b")["text"] == "error code: 507035, rank <NUM>"
