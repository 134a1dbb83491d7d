"""Ordered signatures of failure messages, with roles. See ``docs/signatures.md``."""

from diagnosis.logs.signatures.load import SignatureError, builtin, load, load_with, parse
from diagnosis.logs.signatures.match import SignatureSet
from diagnosis.logs.signatures.model import Rule, Signature, Strength

__all__ = [
    "Rule",
    "Signature",
    "SignatureError",
    "SignatureSet",
    "Strength",
    "builtin",
    "load",
    "load_with",
    "parse",
]
