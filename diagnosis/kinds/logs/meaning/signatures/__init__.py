"""Ordered signatures of failure messages, with roles. See ``docs/signatures.md``."""

from diagnosis.kinds.logs.meaning.signatures.load import SignatureError, builtin, load, load_with, parse
from diagnosis.kinds.logs.meaning.signatures.match import SignatureSet
from diagnosis.kinds.logs.meaning.signatures.model import Signature, Strength

__all__ = ["Signature", "SignatureError", "SignatureSet", "Strength", "builtin", "load", "load_with", "parse"]
