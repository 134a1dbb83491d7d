"""Judgement of a job while it runs: what each new range of a log says, and what that means for the job.

``observe.observe`` reads one range, once. :func:`learn` adds it to the job's state, :func:`judge` says which alarms
hold now. The state is plain JSON of bounded size; cost follows what is new, not what there is.
"""

from diagnosis.live.judge import Alarm, judge
from diagnosis.live.state import learn, new_state

__all__ = ["Alarm", "judge", "learn", "new_state"]
