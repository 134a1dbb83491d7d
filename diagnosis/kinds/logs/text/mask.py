"""Converts a line into its masked message: the text without the parameters.

Only the first step reads every line, and it is compiled (``scan.keys``): lines that differ only in digits share a key.
The rest works on one line of each key:

1. *Normalise*: each run of digits, then each hexadecimal word, becomes ``0``. Of millions of lines, thousands of
   different ones remain.
2. *Mask* the different ones: remove the header, name the parameters (``<NUM>``, ``<IP>``, ``<PATH>`` …).

All are pure functions of the line, so the same message has the same masked text, and the same id, in every file, job
and year, as long as ``VERSION`` is the same. Numbers that *are* the message (Xid and SXid codes, exit codes, signals,
errno, HTTP statuses and the like) are restored.
"""

from __future__ import annotations

import hashlib
import re

import polars as pl

from diagnosis.kinds.logs.text.patterns import ANY, Haystack

#: Increase it when any masked text changes: ids of different versions are never compared.
VERSION = 1
_OPENING_WORDS = 2

_DIGITS = r"(?-u:[0-9]+)"
# Hexadecimal words after runs of digits became one ``0``; ``scan.keys`` has the same rule in code.
_HEXADECIMAL = r"(?-u:\b(?:0[xX]?[0-9a-fA-F]+|[a-fA-F]+0[a-fA-F]+0[0-9a-fA-F]*)\b)"
# UUIDs whose groups are not all hexadecimal by that rule.
_UUID = r"(?-u:\b[0-9a-fA-F]+(?:-[0-9a-fA-F]+){4}\b)"

# Contexts in which a number is part of the message. ``@`` is the number, ``#`` any other number.
_CODE_CONTEXTS = (
    r"\bS?Xid\b[^:\n]{0,40}?\([^)\n]{0,60}\):? *@",
    r"\bS?Xid(?: error| code)?s?[ :=#-]{1,3}@",
    r"(?i:exit(?:ed|s|ing)?(?: with)?(?: exit| return| status)?[ _]?(?:code|status|value)?[ :=(]{1,4}@)",
    r"(?i:return(?:ed|s)?[ _]?(?:code|value|status)?[ :=(]{1,4}@)",
    r"(?i:\bret(?:code|val)?[ :=]{1,3}@)",
    r"(?i:\brc[ :=]{1,3}@)",
    r"(?i:(?:signal|sig|signo)[ :=(#]{1,3}@)",
    # Lustre states its process first, and that is no code
    r"\bL(?:Net|ustre)Error: #:@",
    r"(?i:err(?:or)?(?:no|[ _]?code| number)?[ :=(#\[]{1,3}(?:is +)?@)",
    r"(?i:HTTP(?:/#(?:\.#)?)?\"?(?: status| code| error)*[ :=]{1,3}@)",
    r"(?i:status(?:[ _]?code)?[ :=(]{1,3}@)",
    r"(?i:\b(?:vendor[ _]err|syndrome|opcode)[ :=(]{1,3}@)",
    r"(?i:\bcode[ :=(]{1,3}@)",
)
# Fractions and long numbers are measurements and identities, not codes.
_NUMBER = r"-?(?:0[xX][0-9a-fA-F]+|[0-9]+)(?:\.[0-9]+)?"
_CODES_RAW = "|".join(_CODE_CONTEXTS).replace("@", _NUMBER).replace("#", "[0-9]+")
_CODES_NORMAL = re.compile("|".join(_CODE_CONTEXTS).replace("@", r"-?0(?:\.0)?").replace("#", "0"))
_CODE = r"(-?(?:0[xX][0-9a-fA-F]{1,8}|[0-9]{1,8}))$"

# Named masks over normalised text, in this order. ``0`` is any number there.
MASKS: tuple[tuple[str, str], ...] = (
    (
        (
            r"\b(?:[A-Z][a-z]{2},? +)?(?:[A-Z][a-z]{2} +0|0-0-0|0/0/0)[T ,]+0:0:0(?:[.,]0)?(?: ?(?:Z|UTC"
            r"|[+-]0(?::0)?))?(?: 0)?"
        ),
        "<TIME>",
    ),
    # 0000:3b:00.0 and 12:00:00.5 are equal once normalised; the text before them decides.
    (
        (
            r"(?i)(pci\w*|pcieport|mlx0_core|nvidia|nvme|bnxt_en|device|bus(?:[ _-]?id)?|NVRM|GPU(?: at)?)([ "
            r":=(]{1,3}(?:PCI:)?)0:0:0\.0\b"
        ),
        "${1}${2}<PCI>",
    ),
    (r"(?i)(\bbus[ _-]?id[ :=]+)[0-9a-f]+\b", "${1}<PCI>"),
    (r"(^|[\s\[(=,'\"])0:0:0(?:[.,]0)?\b", "${1}<TIME>"),
    (r"\b(?:0:)?[0-9a-fA-F]{1,2}:(?:0|[0-9a-f]{2})\.0\b", "<PCI>"),
    (r"\(PCI:[0-9a-fA-F:.]+\)", "(PCI:<PCI>)"),
    (r"\b(?:[0-9a-fA-F]{1,2}:){5,}[0-9a-fA-F]{1,2}\b", "<MAC>"),
    (r"\b0\.0\.0\.0(?::0|<0>)?(?:/0)?", "<IP>"),
    (r"\[?\b(?:[0-9a-f]{1,4}:){2,7}:[0-9a-f]{1,4}\b\]?(?::0)?", "<IP>"),
    (r"\b[a-z][a-z0-9+]{1,9}://[^\s'\",;)\]}>]+", "<URL>"),
    (
        (
            r"\b(?:[A-Za-z0-9_-]+\.)+(?:com|net|org|edu|gov|info|io|ai|cloud|local|localdomain|internal|lan"
            r"|cluster|cn|de|uk|fr|jp|kr|ru|nl|ch|it|es|se|no|cz|br|au|ca|us|eu|tw|hk|sg|in)(?::0)?(\W|$)"
        ),
        "<HOST>${1}",
    ),
    (r"\b[A-Za-z0][\w-]*(?:\.[A-Za-z0][\w-]*){2,}:0\b", "<HOST>"),
    (r"(^|[\s'\"=(\[{,:<>|])(?:~|\.{1,2})?(?:/[\w.+@%=:~-]+){2,}/?", "${1}<PATH>"),
    (r"(^|[\s'\"=(\[{,:<>|])(?:[\w.+-]+/){1,}[\w+-]+\.[a-z]\w{0,9}\b", "${1}<PATH>"),
    (r"\b0\.0[-+]0\b", "0"),
    (r"\b0(?:\.0)+\b", "0"),
    (r"(^|[\s=:(,\[])[-+]0", "${1}0"),
    (r"0", "<NUM>"),
)
# Names, not numbers.
_NAMES: tuple[tuple[str, str], ...] = (
    (r"\bc<NUM>(d\b|::)", "c10${1}"),
    (r"\b([pP])<NUM>([pP])\b", "${1}2${2}"),
    (r"\bx<NUM>_<NUM>\b", "x86_64"),
)


def normalise(text: pl.Expr) -> pl.Expr:
    """Step 1: a run of digits counts as one ``0`` before anything else."""
    return text.str.replace_all(_DIGITS, "0").str.replace_all(_HEXADECIMAL, "0").str.replace_all(_UUID, "0")


def has_code(normal: pl.Expr, hay: Haystack = ANY) -> pl.Expr:
    """Whether a normalised line holds a number that is part of its message."""
    return hay.contains(normal, _CODES_NORMAL.pattern)


def codes(text: pl.Expr, hay: Haystack = ANY) -> pl.Expr:
    """The numbers of a raw line that are part of its message, in order, joined by commas; an empty one is no code."""
    number = pl.element().str.extract(rf"({_NUMBER})$", 1).str.extract(rf"^{_CODE}", 1).fill_null("")
    return text.str.extract_all(hay.form(_CODES_RAW)).list.eval(number).list.join(",")


def set_codes(normal: str, numbers: str) -> str:
    """``normal`` with its code numbers, in private-use characters that no mask matches."""
    queue = iter(numbers.split(","))

    def put(match: re.Match[str]) -> str:
        number = next(queue, "")
        context = match.group(0)
        if not number:
            return context
        keep = len(context) - (2 if context.endswith("-0") else 1)
        return context[:keep] + number.translate(_TO_PRIVATE)

    return _CODES_NORMAL.sub(put, normal)


_ALPHABET = "0123456789abcdefABCDEFxX-"
_TO_PRIVATE = {ord(char): 0xE000 + index for index, char in enumerate(_ALPHABET)}
FROM_PRIVATE = {0xE000 + index: char for index, char in enumerate(_ALPHABET)}


def mask(message: pl.Expr, hay: Haystack = ANY) -> pl.Expr:
    """Step 2: names the parameters of a normalised message (see ``MASKS``) and normalises white space."""
    for pattern, name in MASKS:
        message = hay.replace_all(message, pattern, name)
    for pattern, name in _NAMES:  # they hold what the masks put there
        message = message.str.replace_all(hay.form(pattern), name)
    return hay.replace_all(message, r"\s+", " ").str.strip_chars()


#: The masked text of lines in a log with too many different messages, even by their first words.
OTHER_MESSAGES = "<MORE>"


def opening(text: str) -> str:
    """The first words of a masked text; a log with too many messages counts them by these."""
    words = text.split(" ", _OPENING_WORDS)
    return " ".join([*words[:_OPENING_WORDS], OTHER_MESSAGES])


def identity(text: str) -> int:
    """The 64-bit id of a masked text: stable over machines, jobs and years."""
    return int.from_bytes(
        hashlib.blake2b(f"{VERSION}\0{text}".encode("utf-8", "replace"), digest_size=8).digest(), "little"
    )
