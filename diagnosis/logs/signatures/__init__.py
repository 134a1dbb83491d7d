"""Ordered signatures of failure messages, with roles. See ``docs/signatures.md``."""

from diagnosis.logs.signatures.load import SignatureError, builtin, load, load_with, parse
from diagnosis.logs.signatures.match import SignatureSet
from diagnosis.logs.signatures.model import Signature, Strength

__all__ = ["Signature", "SignatureError", "SignatureSet", "Strength", "builtin", "load", "load_with", "parse"]
