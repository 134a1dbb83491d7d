"""Decompresses bodies within a limit. The limit holds while bytes are produced, so a bomb costs no more than that."""

from __future__ import annotations

import zlib

import cramjam
import zstandard

from ingest.refusals import Refused

_GZIP, _ZLIB = 31, 15
#: members of a gzip body; collectors send one
_MAX_MEMBERS = 256


def inflate(data: bytes, coding: str, limit_bytes: int) -> bytes:
    """``data`` without its ``Content-Encoding``. Codings: none, identity, gzip, deflate, zstd, snappy (raw).

    Raises :class:`Refused`: 413 beyond ``limit_bytes``, 415 for another coding, 400 for damaged bytes.
    """
    try:
        match coding.strip().lower():
            case "" | "identity":
                plain = data
            case "gzip" | "x-gzip":
                plain = _zlib(data, _GZIP, limit_bytes)
            case "deflate":
                plain = _zlib(data, _ZLIB, limit_bytes)
            case "zstd":
                plain = _zstd(data, limit_bytes)
            case "snappy":
                plain = _snappy(data, limit_bytes)
            case other:
                sentence = f"Content-Encoding “{other[:40]}” is not known: send gzip, zstd, snappy, deflate or none."
                raise Refused(sentence, code="media_type", status=415)
    except (zlib.error, zstandard.ZstdError, cramjam.DecompressionError, EOFError) as error:
        sentence = f"The body is not valid {coding}: {str(error)[:120]}. Send it again, complete."
        raise Refused(sentence, code="bad_body", status=400) from error
    if len(plain) > limit_bytes:
        raise too_large(limit_bytes)
    return plain


def too_large(limit_bytes: int) -> Refused:
    sentence = f"The body has more than {limit_bytes:,} bytes when it is decompressed: send smaller batches."
    return Refused(sentence, code="too_large", status=413)


def _zlib(data: bytes, form: int, limit_bytes: int) -> bytes:
    out, rest = bytearray(), data
    for _ in range(_MAX_MEMBERS):  # what follows a member is copied, so many members cost their number squared
        member = zlib.decompressobj(form)
        out += member.decompress(rest, limit_bytes + 1 - len(out))
        if len(out) > limit_bytes:
            raise too_large(limit_bytes)
        if not member.eof:
            raise zlib.error("it ends too early")
        rest = member.unused_data
        if not rest:
            return bytes(out)
    raise zlib.error(f"it has more than {_MAX_MEMBERS} members")


def _zstd(data: bytes, limit_bytes: int) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 25).stream_reader(data, read_across_frames=True)
    out = bytearray()
    while block := reader.read(min(1 << 20, limit_bytes + 1 - len(out))):
        out += block
    return bytes(out)


def _snappy(data: bytes, limit_bytes: int) -> bytes:
    """The raw form states its size first; the library allocates that much."""
    if data and cramjam.snappy.decompress_raw_len(data) > limit_bytes:
        raise too_large(limit_bytes)
    return bytes(cramjam.snappy.decompress_raw(data)) if data else b""
