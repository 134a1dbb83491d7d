"""Typed environment variables. An error names the variable and a valid value."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def env_str(name: str, default: str = "") -> str:
    """The variable, or the first line of the file in ``<name>_FILE`` (mounted secrets)."""
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text().splitlines()[0].strip()
        except (OSError, IndexError) as error:
            raise ImproperlyConfigured(f"{name}_FILE names {path}, which cannot be read: {error}") from error
    return os.environ.get(name, default)


def env_bool(name: str, default: bool) -> bool:
    raw = env_str(name, "1" if default else "0").strip().lower()
    if raw in _TRUE:
        return True
    if raw in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} is {raw!r}: use 1 or 0")


def env_choice(name: str, known: tuple[str, ...]) -> str:
    """One of these words; the first is the default."""
    raw = env_str(name, known[0])
    if raw not in known:
        raise ImproperlyConfigured(f"{name} is {raw!r}: use {' or '.join(known)}")
    return raw


def env_int(name: str, default: int, *, minimum: int = 0) -> int:
    raw = env_str(name, str(default))
    try:
        value = int(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {raw!r}: use a whole number") from None
    if value < minimum:
        raise ImproperlyConfigured(f"{name} is {value}: it must be at least {minimum}")
    return value


def env_price(name: str) -> tuple[float, str] | None:
    """A price and its currency, as in “2.50 EUR”; None if it is not set."""
    raw = env_str(name).strip()
    if not raw:
        return None
    amount, _, currency = raw.partition(" ")
    try:
        value = float(amount)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e6 or not 0 < len(currency.strip()) <= 8:
        raise ImproperlyConfigured(f"{name} is {raw!r}: use a number above 0 and a currency, such as 2.50 EUR")
    return value, currency.strip()


def diagnosing_memory_bytes() -> int:
    """The default memory limit of one diagnosis: a share of this machine's (or container's) memory, at least 1 GiB.

    All worker processes of a machine with up to five cores can use it at the same time.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max" means no limit
            total = min(total, int(Path(place).read_text()))
    return max(1 << 30, int(0.8 * total) // min(max(os.cpu_count() or 2, 2), 5))


def env_list(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in env_str(name, default).split(",") if part.strip()]


def env_pairs(name: str, known: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """``engineer=users,engineer=sre`` as ``{"engineer": {"users", "sre"}}``. If ``known`` is given, other left sides
    are errors.
    """
    pairs: dict[str, set[str]] = {}
    for part in env_list(name):
        left, equals, right = (word.strip() for word in part.partition("="))
        if not (left and equals and right) or (known and left not in known):
            raise ImproperlyConfigured(
                f"{name} has {part!r}: write {'|'.join(known) or 'name'}=group, separated by commas"
            )
        pairs.setdefault(left, set()).add(right)
    return pairs


def env_secret(name: str, path: Path) -> str:
    """The variable, else the secret in the file ``path``, created on first use (mode 600)."""
    value = env_str(name)
    if value:
        return value
    if path.exists():
        return path.read_text().strip()
    path.parent.mkdir(parents=True, exist_ok=True)
    value = secrets.token_urlsafe(48)
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(value)
    except FileExistsError:  # another process created it first
        value = path.read_text().strip()
    return value
