"""The JSON of running jobs: the state that a site stores, and the observations that a reader
process sends.

Nothing else reads or writes it. Values that are missing, or that no version could have written,
become the defaults: a state that is damaged costs what it knew, not the judgement of its job.
"""

from __future__ import annotations

from typing import Any

import msgspec

from diagnosis.live.alarms import AlarmRow
from diagnosis.live.job_state import JobState
from diagnosis.live.observation import Observation
from diagnosis.live.site_time import Moment
from diagnosis.live.watches import TABLE, losses
from diagnosis.live.watches.losses import LossState
from diagnosis.values.json_values import Json, JsonObject
from diagnosis.values.plain import plain


def encode(part: object) -> Any:
    """Plain JSON of a state, of observations, or of rows of them. O(values)."""
    return msgspec.to_builtins(part)


def decode_state(stored: object, now: float) -> JobState:
    """The state of a job, followed since ``now`` if it does not say. Never raises. O(values)."""
    parts = _object(stored)
    since = parts.get("since")
    stated: dict[str, Json] = {"since": since if _is_readable(since, Moment) else now, "watches": {}}
    job = _decode({**parts, **stated}, JobState, JobState(since=now))
    watches = _object(parts.get("watches"))
    for watch in TABLE:
        job.watches[watch.id] = _decode(watches.get(watch.id), watch.record, watch.record())
    return job


def decode_alarms(stored: object) -> list[AlarmRow]:
    """The alarms of a stored state, open ones first, without a look at the rest. Never raises."""
    return _decode(_object(stored).get("alarms"), list[AlarmRow], [])


def decode_steps(stored: object) -> list[float]:
    """Seconds of the last iterations of a stored state, as :func:`decode_alarms`. Never raises."""
    return _decode(_object(stored).get("steps"), list[float], [])


def decode_losses(stored: object) -> list[float]:
    """The last usual losses of a stored state, of the file that states most. Never raises."""
    watches = _object(_object(stored).get("watches"))
    state = _decode(watches.get(losses.id), LossState, LossState())
    return max((file.usual for file in state.files.values()), key=len, default=[])


def decode_observation(sent: object) -> Observation:
    """An observation as sent, its texts fit for every database. Never raises. O(values)."""
    return _decode(plain(sent), Observation, Observation())


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _decode[Kind](value: object, kind: type[Kind], default: Kind) -> Kind:
    """``value`` as a record; of a damaged one the fields that can be read; else ``default``."""
    if value is None:
        return default
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        return _decode_fields(_object(value), kind, default)


def _decode_fields[Kind](parts: JsonObject, kind: type[Kind], default: Kind) -> Kind:
    """A record of the fields that can be read, if these fit together."""
    if not isinstance(default, msgspec.Struct):
        return default
    found = {}
    for field in msgspec.structs.fields(type(default)):
        if _is_readable(parts.get(field.encode_name), field.type):
            found[field.encode_name] = parts[field.encode_name]
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError:
        return default


def _is_readable(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        return False
    return value is not None
