"""Ordered signatures of failure messages, with roles. See ``docs/signatures.md``."""

from diagnosis.kinds.logs.meaning.signatures.load import SignatureError, builtin, load, load_with, parse
from diagnosis.kinds.logs.meaning.signatures.match import SignatureSet
from diagnosis.kinds.logs.meaning.signatures.model import Signature, Strength
from diagnosis.kinds.logs.meaning.signatures.quotations import PROGRAM, is_program_error, without_names

__all__ = [
    "PROGRAM",
    "Signature",
    "SignatureError",
    "SignatureSet",
    "Strength",
    "builtin",
    "is_program_error",
    "load",
    "load_with",
    "parse",
    "without_names",
]
