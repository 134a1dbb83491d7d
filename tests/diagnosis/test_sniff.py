"""The content decides the kind of a file."""

import io
from pathlib import Path

import pytest

from diagnosis import Kind, ParseHints, parse
from diagnosis.files.recognise import LogKinds, is_divisible
from diagnosis.kinds import kind_table
from diagnosis.kinds.binary import binary_reason
from diagnosis.kinds.kind_table import kind_of

HEADS = {
    ("job.json", b'{"job_id": "a", "nodes": [{"name": "n1", "ip": "10.0.0.1"}], "world_size": 8}'): Kind.INVENTORY,
    ("layout.json", b'{"tp": 2, "pp": 2, "dp": 2, "order": "tp-dp-pp", "ranks": {}}'): Kind.LAYOUT,
    ("inventory.csv", b"ip,node,gpu,leaf\n10.0.0.1,n1,0,leaf-1\n"): Kind.INVENTORY,
    ("a.txt", b"[Sun Mar  1 08:00:00 2026] NVRM: loaded\n[Sun Mar  1 08:00:01 2026] usb 1-1: new\n"): Kind.KERNEL,
    ("a.log", b"Mar  1 08:00:00 n1 kernel: oops\n"): Kind.KERNEL,
    ("launcher.log", b"srun: job 7 queued\nsrun: job 7 has been allocated resources\n"): Kind.SCHEDULER,
    ("acct.txt", b"JobID|State|ExitCode\n7|FAILED|1:0\n"): Kind.SCHEDULER,
    ("train.log", b"iteration 1 loss 2\niteration 2 loss 1.9\n"): Kind.LOG,
    ("err.json", b'{"message": {"message": "RuntimeError: x", "extraInfo": {}}}'): Kind.LOG,
    ("utf16.log", "iteration 1\n".encode("utf-16")): Kind.LOG,
    ("blank.log", b"\n\n"): Kind.LOG,
    ("core", b"\x7fELF" + bytes(64)): Kind.OTHER,
}


@pytest.mark.parametrize(("path", "head"), HEADS)
def test_kinds(path: str, head: bytes) -> None:
    assert kind_of(head, path) is HEADS[path, head]


@pytest.mark.parametrize("text", ["naïve Größe\n" * 50, "漢字の記録\n" * 50, "plain\x1b[31m red\x1b[0m\n" * 9])
def test_text_in_any_language_and_colour_is_text(text: str) -> None:
    assert binary_reason(text.encode()) is None


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_character_cut_by_the_end_of_what_is_looked_at_leaves_text_text(cut: int) -> None:
    assert binary_reason(("漢字の記録\n" * 50).encode() + "漢字".encode()[: 3 + cut]) is None


def test_high_bytes_in_no_order_are_binary() -> None:
    assert binary_reason(bytes(range(160, 250)) * 20) == "binary data"


def test_latin_1_text_is_text() -> None:
    assert binary_reason("Fehler: größer als erlaubt\n".encode("latin-1") * 20) is None


def test_a_table_of_nodes_becomes_rows(tmp_path: Path) -> None:
    parsed = parse(io.BytesIO(b"IP;Node\n10.0.0.1;n1\n10.0.0.2;n2\n"), "nodes.csv", ParseHints(), tmp_path)
    assert parsed.facts == {"rows": [{"ip": "10.0.0.1", "node": "n1"}, {"ip": "10.0.0.2", "node": "n2"}]}


def test_a_broken_job_description_says_so(tmp_path: Path) -> None:
    parsed = parse(io.BytesIO(b'{"job_id": "a", "nodes": ['), "job.json", ParseHints(), tmp_path)
    assert parsed.kind is Kind.INVENTORY
    assert parsed.skipped and "not valid JSON" in parsed.skipped


def test_only_logs_of_one_byte_units_may_be_cut() -> None:
    assert is_divisible(b"iteration 1\n", "a.log")
    assert not is_divisible("iteration 1\n".encode("utf-16"), "a.log")
    assert not is_divisible(b'{"job_id": "a", "nodes": []}', "job.json")


def test_a_report_between_logs_stays_one_and_known_lines_are_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds, lines = LogKinds(), [f"2026-03-01 08:00:0{n} step {n} loss 2.{n}\n" for n in range(6)]
    asked: list[str] = []

    def remember(head: bytes, path: str) -> str:
        asked.append(path)
        return kind_of(head, path)

    monkeypatch.setattr(kind_table, "kind_of", remember)
    assert kinds.of("".join(lines).encode(), "gpu-1.log") == Kind.LOG
    assert kinds.of("".join(reversed(lines)).encode(), "gpu-2.log") == Kind.LOG
    assert kinds.of(b"==============NVSMI LOG==============\nGPU 00000000:9B:00.0\n", "gpu-3.log") is None
    assert kinds.of(lines[3].encode(), "gpu-4.log") == Kind.LOG
    assert set(asked) == {"gpu-1.log", "gpu-2.log", "gpu-3.log"}


def test_lines_of_a_kernel_among_those_of_logs_are_a_kernel_log() -> None:
    kinds, kernel = LogKinds(), "[    5.{n:06}] NVRM: loading\n"
    log = "2026-03-01 08:00:01 step 1\n2026-03-01 08:00:02 step 2\n" + kernel.format(n=1)
    assert kinds.of(log.encode(), "gpu-1.log") == Kind.LOG
    assert kinds.of((kernel.format(n=2) * 3).encode(), "gpu-2.log") == Kind.KERNEL
