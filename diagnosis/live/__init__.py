"""Judges a running job from each new range of its logs.

``observe.observe`` reads one range, once. :func:`learn` adds it to the job's state, :func:`judge` says which alarms
hold now, :func:`record` keeps them. The state is plain JSON of bounded size; the cost depends on the new lines only.
"""

from diagnosis.live.attention import note_judgement
from diagnosis.live.judge import judge, record
from diagnosis.live.news import Alarm
from diagnosis.live.state import learn, new_state

__all__ = ["Alarm", "judge", "learn", "new_state", "note_judgement", "record"]
