"""``faultline watch prometheus``: tells the site what exporters count about nodes: Xids, ECC errors, link failures.

Asks Prometheus for a range each time and sends each rise of a counter as an event. Times of samples are multiples of
the step, so that a restart finds the same events again, which the site stores once.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional
from urllib.parse import urlencode, urlsplit

from faultline.site import Site
from faultline.words import DONE, UsageError, Words

#: seconds of the past that the first look asks for
_LOOKBACK_S = 900
_MAX_BYTES = 16 << 20
_TIMEOUT_S = 30.0
#: events in one request to the site
_MAX_EVENTS = 500
#: labels with the name of a node, as exporters have them
_NODE_LABELS = ("node", "Hostname", "hostname", "nodename", "instance")


class Metric(NamedTuple):
    """A series that counts failures. ``text`` has labels in braces and ``{value}``, the new value.

    ``is_code``: its value is the code of the last failure, so a change counts and not a rise.
    """

    name: str
    text: str
    severity: str = "critical"
    is_code: bool = False


#: from dcgm-exporter, node_exporter and NVIDIA's counters of links
METRICS = (
    Metric("DCGM_FI_DEV_XID_ERRORS", "Xid {value} on GPU {gpu}", is_code=True),
    Metric("DCGM_EXP_XID_ERRORS_COUNT", "Xid {xid} on GPU {gpu}"),
    Metric("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "GPU {gpu}: double bit ECC error, volatile count {value}"),
    Metric("DCGM_FI_DEV_ROW_REMAP_FAILURE", "row remap failure on GPU {gpu}"),
    Metric("node_infiniband_link_downed_total", "{device} port {port}: link went down"),
)


def watch(args: argparse.Namespace, site: Site, say: Words) -> int:
    """Look every ``--every`` seconds until SIGTERM or SIGINT; once with ``--once``."""
    if args.every < 1:
        raise UsageError("--every is at least 1 second.")
    source = Prometheus(args.server, step_s=int(args.every))
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, frame: stop.set())
    headers = {"Content-Type": "application/json"}
    if args.cluster:
        headers["Faultline-Cluster"] = args.cluster
    since = time.time() - _LOOKBACK_S
    while True:
        now = time.time()
        try:
            found = list(source.events(since, now))
            since = now - 2 * args.every  # a scrape may be stored late
        except OSError as error:
            found = []
            say.note(f"{args.server} cannot be asked: {error}")
        for first in range(0, len(found), _MAX_EVENTS):
            body = json.dumps({"events": found[first : first + _MAX_EVENTS]}).encode()
            told = site.ask("POST", "/node-events/", body, headers).data
            if told["sentence"]:
                say.note(told["sentence"])
        if args.once or stop.wait(args.every):
            return say.end(DONE)


class Prometheus:
    """One Prometheus, or a program with its API (Thanos, Mimir, VictoriaMetrics)."""

    def __init__(self, url: str, *, step_s: int) -> None:
        parts = urlsplit(url or "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("Which Prometheus? Give --server http://prometheus:9090.")
        self._url, self._step_s = url.rstrip("/"), step_s

    def events(self, since: float, until: float) -> Iterator[dict[str, Any]]:
        """What rose within the range, by metric and time. Raises OSError if there is no usable answer."""
        first = int(since) // self._step_s * self._step_s
        for metric in METRICS:
            for series in self._range(metric.name, first, until):
                labels = series.get("metric") or {}
                node = next((str(labels[name]) for name in _NODE_LABELS if labels.get(name)), "")
                before: Optional[float] = None  # noqa: UP045  # Python 3.9
                for at, raw in series.get("values") or ():
                    value = float(raw)
                    if before is None and at > first + self._step_s:
                        before = 0.0  # exporters begin a series with the first failure
                    is_new = before is not None and (value != before if metric.is_code else value > before)
                    if is_new and value and node:
                        text = metric.text.format_map(_Labels(labels, value=f"{value:.0f}"))
                        yield {
                            "node": node,
                            "at": float(at),
                            "severity": metric.severity,
                            "source": "prometheus",
                            "message": text,
                        }
                    before = value

    def _range(self, name: str, first: int, until: float) -> list[dict[str, Any]]:
        args = urlencode({"query": name, "start": first, "end": int(until), "step": self._step_s})
        try:
            # the operator's own address, checked to be HTTP
            url = f"{self._url}/api/v1/query_range?{args}"
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310
                found = json.loads(answer.read(_MAX_BYTES))["data"]["result"]
        except (ValueError, KeyError, TypeError, http.client.HTTPException) as error:
            raise OSError(f"no answer of Prometheus ({type(error).__name__})") from None
        if not isinstance(found, list):
            raise OSError("no answer of Prometheus")
        return found


class _Labels(dict[str, str]):
    """Labels for a text; a missing one is “?”."""

    def __init__(self, labels: dict[str, Any], **more: str) -> None:
        super().__init__({name: str(value)[:100] for name, value in labels.items()}, **more)

    def __missing__(self, name: str) -> str:
        return "?"
