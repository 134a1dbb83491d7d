"""The S3 store. One that does not answer raises :class:`~ingest.refusals.StoreAway`, whatever the library raises: work
waits for it, and nobody takes it for a fault of the evidence or for a missing file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from storages.backends.s3 import S3Storage

from ingest.refusals import StoreAway

#: a request waits this long for a connection and for each answer, and is repeated so often
_CONNECT_S, _ANSWER_S, _MAX_TRIES = 5, 30, 3
#: codes below 500 that pass with time
_TRANSIENT_CODES = frozenset(
    {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests", "429"}
)


@contextmanager
def translate_store_errors() -> Iterator[None]:
    """Turn the errors of a store that does not answer into :class:`StoreAway`."""
    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
        if status < 500 and error.response.get("Error", {}).get("Code") not in _TRANSIENT_CODES:
            raise
        raise StoreAway(str(error)) from error
    except (BotoCoreError, Boto3Error) as error:
        raise StoreAway(str(error)) from error


class ObjectStore(S3Storage):  # type: ignore[misc]  # storages has no types
    """Whole objects are fetched when they are opened."""

    def get_default_settings(self) -> dict[str, Any]:
        retries = {"mode": "standard", "total_max_attempts": _MAX_TRIES}
        limits = Config(connect_timeout=_CONNECT_S, read_timeout=_ANSWER_S, retries=retries)
        return {**super().get_default_settings(), "client_config": limits}

    @translate_store_errors()
    def _open(self, name: str, mode: str = "rb") -> Any:
        opened = super()._open(name, mode)
        if "r" in mode:
            opened.file  # noqa: B018  # fetches it
        return opened

    @translate_store_errors()
    def _save(self, name: str, content: Any) -> Any:
        return super()._save(name, content)

    @translate_store_errors()
    def delete(self, name: str) -> None:
        super().delete(name)

    @translate_store_errors()
    def exists(self, name: str) -> bool:
        return bool(super().exists(name))

    @translate_store_errors()
    def size(self, name: str) -> int:
        return int(super().size(name))

    @translate_store_errors()
    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        folders, files = super().listdir(path)
        return list(folders), list(files)

    @translate_store_errors()
    def get_modified_time(self, name: str) -> Any:
        return super().get_modified_time(name)

    @translate_store_errors()
    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset`` on, fewer at the end; opening the object would fetch the whole first."""
        if not length:
            return b""
        name = f"{self.location.rstrip('/')}/{key}".lstrip("/")
        try:
            answer = self.bucket.Object(name).get(Range=f"bytes={offset}-{offset + length - 1}")
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code in ("InvalidRange", "416"):  # begins beyond the end
                return b""
            if code in ("NoSuchKey", "404"):
                raise FileNotFoundError(name) from error
            raise
        data: bytes = answer["Body"].read()
        return data
