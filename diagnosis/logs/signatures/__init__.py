"""Ordered signatures of failure messages, with roles. See ``docs/signatures.md``."""

from diagnosis.logs.signatures.load import SignatureError, builtin, load, load_with, parse
from diagnosis.logs.signatures.match import SignatureSet
from diagnosis.logs.signatures.model import Rule, Signature, Strength
from diagnosis.logs.signatures.validate import dry_run, validate

__all__ = [
    "Rule",
    "Signature",
    "SignatureError",
    "SignatureSet",
    "Strength",
    "builtin",
    "dry_run",
    "load",
    "load_with",
    "parse",
    "validate",
]
