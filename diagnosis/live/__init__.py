"""Judges a running job from each new range of its logs.

``observe.observe`` reads one range, once. :func:`learn` adds it to the job's state, :func:`judge`
says which alarms hold now, :func:`record` keeps them. The state has a bounded size, and is JSON
where it is stored (:mod:`diagnosis.live.stored_form`); the cost depends on the new lines only.
"""

from diagnosis.live.alarms import Alarm, AlarmRow
from diagnosis.live.job_learning import learn, new_state
from diagnosis.live.job_state import JobState
from diagnosis.live.judge import judge, record
from diagnosis.live.observation import Observation
from diagnosis.live.site_absence import note_judgement
from diagnosis.live.stored_form import (
    decode_alarms,
    decode_losses,
    decode_observation,
    decode_state,
    decode_steps,
    encode,
)

__all__ = [
    "Alarm",
    "AlarmRow",
    "JobState",
    "Observation",
    "decode_alarms",
    "decode_losses",
    "decode_observation",
    "decode_state",
    "decode_steps",
    "encode",
    "judge",
    "learn",
    "new_state",
    "note_judgement",
    "record",
]
