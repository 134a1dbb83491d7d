"""Judges a running job from each new range of its logs.

``observe.observe`` reads one range, once. :func:`learn` adds it to the job's state, :func:`judge` says which alarms
hold now. The state is plain JSON of bounded size; the cost depends on the new lines only.
"""

from diagnosis.live.judge import Alarm, judge
from diagnosis.live.state import learn, new_state

__all__ = ["Alarm", "judge", "learn", "new_state"]
