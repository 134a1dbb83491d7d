"""Secrets that the site must read again, such as keys of authenticator apps and addresses of chats: encrypted in the
database with a key that comes from the site's secret key.
"""

from __future__ import annotations

import base64
from functools import cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

#: before what is sealed; what begins otherwise was stored before there was a seal
_MARK = "sealed:"


class SealBroken(Exception):
    """It was sealed with a secret key that is neither the current one nor a former one."""

    def __init__(self) -> None:
        super().__init__(
            "It is encrypted with another FAULTLINE_SECRET_KEY: set that one as FAULTLINE_SECRET_KEY_FORMER, or enter "
            "it again."
        )


def seal(text: str) -> str:
    """``text`` encrypted (AES-128-CBC with HMAC-SHA256), with the current secret key. An empty text stays empty."""
    if not text:
        return ""
    return _MARK + _keys().encrypt(text.encode()).decode()


def unseal(stored: str) -> str:
    """The text of what :func:`seal` returned, also with a former secret key; other texts as they are.

    Raises:
        SealBroken: no known secret key fits.
    """
    if not stored.startswith(_MARK):
        return stored
    try:
        return _keys().decrypt(stored.removeprefix(_MARK).encode()).decode()
    except InvalidToken:
        raise SealBroken from None


def is_sealed_now(stored: str) -> bool:
    """Whether it is sealed with the current secret key: then no former one is needed."""
    if not stored.startswith(_MARK):
        return False
    try:
        Fernet(_key_of(settings.SECRET_KEY)).decrypt(stored.removeprefix(_MARK).encode())
    except InvalidToken:
        return False
    return True


def _keys() -> MultiFernet:
    return MultiFernet([Fernet(_key_of(key)) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


@cache
def _key_of(secret_key: str) -> bytes:
    derived = HKDF(SHA256(), length=32, salt=None, info=b"faultline.sealing").derive(secret_key.encode())
    return base64.urlsafe_b64encode(derived)
