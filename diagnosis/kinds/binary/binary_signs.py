"""What a file is whose bytes are no text."""

from __future__ import annotations

import codecs

from diagnosis.kinds.logs.text.encodings import encoding_of

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
#: Version and, where it bounds it, the number of records or bytes at the beginning of a flow
#: export's packet.
_MAX_V5_RECORDS = 30
_CONVERT = "record it with nfcapd and convert it: nfdump -r FILE -o csv"
#: Control characters that text does not contain: not NUL, white space, backspace, form feed,
#: escape.
_CONTROL = bytes((*range(1, 7), *range(14, 27), *range(28, 32), 127))


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
