"""Messages to workers. They name a task and contain ids only, so that a sender imports no task."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import current_app
from kombu.exceptions import KombuError, OperationalError

log = logging.getLogger(__name__)

#: what sending a message raises if the broker is down
_BROKER_ERRORS = (OperationalError, KombuError, OSError)
#: a client needs seconds to find that the broker is down: after a failure, nobody tries again for this long
_ASK_AGAIN_S = 15.0
_ask_again_at = 0.0


def send(task: str, *arguments: Any, **options: Any) -> bool:
    """Send a task's message once. False without a broker; for a while after a failure it returns False at once.

    ``options`` are those of Celery's ``apply_async``.
    """
    global _ask_again_at  # noqa: PLW0603  # one fact of the process, not of a request
    if is_paused():
        return False
    if is_eager() and task not in current_app.tasks:  # it runs here, and no worker loaded it
        current_app.loader.import_default_modules()
    try:
        current_app.signature(task, args=arguments).apply_async(retry=False, **options)
    except _BROKER_ERRORS as error:
        _ask_again_at = time.monotonic() + _ASK_AGAIN_S
        log.warning("the broker cannot be reached, %s%s waits: %s", task, arguments, error)
        return False
    return True


def is_eager() -> bool:
    """Whether a message is carried out where it is sent, and nobody else does anything meanwhile."""
    return bool(current_app.conf.task_always_eager)


def is_paused() -> bool:
    """Whether the broker was down a moment ago."""
    return time.monotonic() < _ask_again_at


def queue_length(queue: str = "parse") -> int | None:
    """The number of messages in a queue; None if the broker is down."""
    if is_eager():
        return 0
    with current_app.connection_for_read() as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=3)
            return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:  # an empty queue may not exist
            return 0
        except (*connection.connection_errors, *_BROKER_ERRORS):
            return None
