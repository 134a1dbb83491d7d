"""The kind of an artifact, from its first bytes; its name only breaks ties."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Callable

from diagnosis.kinds import flows
from diagnosis.kinds.logs.read.encodings import decode, encoding_of
from diagnosis.model import Kind
from diagnosis.plain import plain

#: Number of bytes for the decision.
HEAD_BYTES = 64 << 10

_MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "a program (ELF)"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"MZ", "a Windows program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xca\xfe\xba\xbe", "compiled Java or a Mach-O program"),
    (b"OggS", "an audio file"),
    (b"ID3", "an audio file"),
    (b"RIFF", "an audio or video file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"LPKSHHRH", "a binary systemd journal"),
    (b"\x0c\xa5", "an nfcapd file (convert it: nfdump -r FILE -o csv)"),
)
#: Version and, where it bounds it, the number of records or bytes at the beginning of a flow export's packet.
_MAX_V5_RECORDS = 30
_CONVERT = "record it with nfcapd and convert it: nfdump -r FILE -o csv"
#: Control characters that text does not contain: not NUL, white space, backspace, form feed, escape.
_CONTROL = bytes((*range(1, 7), *range(14, 27), *range(28, 32), 127))
_KERNEL = re.compile(
    r"^(?:<\d+>)?(?:\[ *\d+\.\d{6}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\] |\S.{0,60} kernel: )"
)
_SCHEDULER = re.compile(
    r"^(?:slurmstepd|srun|sbatch|slurmctld|slurmd|salloc): |^JobId=\d+|^\s*JobID[ |]|\bslurm(?:ctld|d"
    r"|stepd)\[|^\S* ?(?:Normal|Warning) +[A-Z][A-Za-z]+ +\S+/|^LAST SEEN\s+TYPE|PyTorchJob"
    r"|^NodeName=|"
    r"pod/\S+ |^bsub|^qsub"
)
#: Each line that matches contains one of these.
_KERNEL_WORDS = ("\n<", "\n[", " kernel: ")
_SCHEDULER_WORDS = (
    *("slurm", "srun: ", "sbatch: ", "salloc: ", "JobI", "JobID", "Normal ", "Warning ", "LAST SEEN", "PyTorchJob"),
    *("NodeName=", "pod/", "\nbsub", "\nqsub"),
)
_SACCT = re.compile(r"^\s*(?:JobID|JobIDRaw|Account|User|Partition|State|ExitCode|NodeList)[|,]")


def binary_reason(head: bytes) -> str | None:
    """The reason why bytes are no text, or None: "a JPEG image", "binary data"."""
    for magic, name in _MAGICS:
        if head.startswith(magic):
            return name
    if (export := _flow_export(head)) is not None:
        return f"a {export} export as a router sends it ({_CONVERT})"
    if not head or encoding_of(head)[0] != "utf-8":
        return None
    control = len(head) - len(head.translate(None, _CONTROL))
    high = 0 if head.isascii() else len(head.translate(None, bytes(range(128))))
    if control > 0.02 * len(head) or (high > 0.25 * len(head) and not _is_utf8(head)):
        return "binary data"
    return None


def _flow_export(head: bytes) -> str | None:
    """The protocol of packets of flow records: their version, and a count or a length that fits."""
    if len(head) < 20:
        return None
    version, count = int.from_bytes(head[:2], "big"), int.from_bytes(head[2:4], "big")
    if version == 5 and 1 <= count <= _MAX_V5_RECORDS:
        return "NetFlow v5"
    if version == 9 and 1 <= count <= _MAX_V5_RECORDS * 2 and head[16:20] != b"\0\0\0\0":
        return "NetFlow v9"
    if version == 10 and 16 <= count <= max(len(head), 1500):
        return "IPFIX"
    if head[:4] == b"\0\0\0\5" and head[4:8] in (b"\0\0\0\1", b"\0\0\0\2"):
        return "sFlow"
    return None


def _is_utf8(head: bytes) -> bool:
    """Whether bytes are text in UTF-8; the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def sniff(head: bytes, path: str) -> Kind:
    """The kind of an artifact that begins with ``head`` (at most ``HEAD_BYTES`` are read). O(len(head))."""
    head = head[:HEAD_BYTES]
    if flows.sniff(head, path):
        return Kind.FLOW
    if binary_reason(head):
        return Kind.OTHER
    encoding, mark = encoding_of(head)
    text = decode(head[mark : len(head) - len(head) % 2 if mark != 3 else None], encoding)
    name = path.rsplit("/", 1)[-1].lower()
    if (kind := _structured_kind(text, name)) is not None:
        return kind
    lines = [line for line in text.splitlines()[:400] if line.strip()]
    if not lines:
        return Kind.LOG
    if _SACCT.match(lines[0]):
        return Kind.SCHEDULER
    if _is_half_matched(lines, _KERNEL.match, _KERNEL_WORDS):
        return Kind.KERNEL
    if _is_half_matched(lines, _SCHEDULER.search, _SCHEDULER_WORDS):
        return Kind.SCHEDULER
    return Kind.LOG


def _is_half_matched(lines: list[str], matched: Callable[[str], object], words: tuple[str, ...]) -> bool:
    """Whether at least half of the lines match; stops at the line that decides. Each match needs one of ``words``:
    counting them is enough for nearly all files.
    """
    text = "\n" + "\n".join(lines)
    if 2 * sum(text.count(word) for word in words) < len(lines):
        return False
    missed = 0
    for line in lines:
        missed += matched(line) is None
        if 2 * missed > len(lines):
            return False
    return True


def _structured_kind(text: str, name: str) -> Kind | None:
    """Job descriptions, layouts and inventories, which are JSON objects or CSV tables with typical fields."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("{") and not start.startswith('{"time') and name.endswith(".json"):
        keys = set(re.findall(r'"(\w+)"\s*:', start[:20_000]))
        if (
            {"tp", "pp", "dp"} & keys
            and ("ranks" in keys or name.startswith("layout") or "order" in keys)
            and "job_id" not in keys
            and "nodes" not in keys
        ):
            return Kind.LAYOUT
        if ({"job_id", "jobs"} & keys and {"nodes", "hosts", "world_size"} & keys) or name == "job.json":
            return Kind.INVENTORY
        if name.startswith("layout"):
            return Kind.LAYOUT
    first = start.split("\n", 1)[0].strip().lower()
    fields = [field.strip(' "') for field in re.split(r"[,;\t]", first)]
    if (
        len(fields) >= 2
        and ("ip" in fields or "ip_address" in fields)
        and {"node", "host", "hostname", "name"} & set(fields)
    ):
        return Kind.INVENTORY
    return None


def facts_of(kind: Kind, data: bytes) -> dict[str, object]:
    """The content of an inventory or layout as JSON-able facts: ``{"json": {...}}`` or ``{"rows": [{...}]}``.
    Raises ``ValueError`` with a sentence.
    """
    encoding, mark = encoding_of(data)
    text = decode(data[mark:], encoding)
    if text.lstrip().startswith(("{", "[")):
        try:
            return {"json": plain(json.loads(text))}
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the file is not valid JSON ({error}); export it again") from error
    dialect = (
        ";"
        if text.split("\n", 1)[0].count(";") > text.split("\n", 1)[0].count(",")
        else "\t"
        if "\t" in text.split("\n", 1)[0]
        else ","
    )
    rows = [
        {(key or "").strip().lower(): (value or "").strip() for key, value in row.items() if isinstance(value, str)}
        for row in csv.DictReader(text.splitlines(), delimiter=dialect)
    ]
    return {"rows": rows}
