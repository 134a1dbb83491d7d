"""Each web process tells its figures (:mod:`ingest.figures`), in a thread."""

from __future__ import annotations

import logging
import os
import threading
import time

from redis import RedisError

from ingest import processes
from ingest.figures import ProcessFigures, Requests, process_tell

log = logging.getLogger(__name__)

_EVERY_S = 5.0
_MEMORY_EVERY_TURNS = 3


def tell_always(requests: Requests) -> None:
    """Tell the figures of this process until it ends. Without the queue's server they are told later."""
    threading.Thread(target=_tell_forever, args=(requests,), name="figures", daemon=True).start()


def _tell_forever(requests: Requests) -> None:
    turn = 0
    while True:
        try:
            requests.send()
            if turn % _MEMORY_EVERY_TURNS == 0:
                part = os.environ.get("FAULTLINE_PART", "web")
                process_tell(ProcessFigures(part, processes.memory_bytes(os.getpid())))
        except RedisError as error:
            log.info("figures wait for the queue: %s", error)
        turn += 1
        time.sleep(_EVERY_S)
