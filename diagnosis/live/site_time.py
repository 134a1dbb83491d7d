"""Times of a running job are seconds on the clock of the site: a hang is silence, and silence has
no stamp.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

#: Seconds since the epoch, of the years that every calendar knows.
type Moment = Annotated[float, msgspec.Meta(ge=-1e10, le=1e11)]
#: A duration in seconds.
type Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
#: A duration, or a spread, by which others are divided.
type Positive = Annotated[float, msgspec.Meta(ge=1e-6, le=1e11)]
