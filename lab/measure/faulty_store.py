"""moto's S3 server that fails while a file exists: `python -m lab.measure.faulty_store ADDRESS PORT FILE`.

The file says how: ``503``, or ``slow`` for an answer after three seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_ERROR = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_SLOW_S = 3


def serve(address: str, port: int, switch: Path) -> None:
    """Serve until the process ends."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    store = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        fault = switch.read_text() if switch.exists() else ""
        if fault == "slow":
            time.sleep(_SLOW_S)
        elif fault:
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [_ERROR]
        answer: Iterable[bytes] = store(environ, start_response)
        return answer

    print("ready", flush=True)
    run_simple(address, port, application, threaded=True)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
