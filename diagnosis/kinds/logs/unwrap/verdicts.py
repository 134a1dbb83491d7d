"""What a record of a firewall says of a connection, as a line: who, to whom, and what became of it.

Hubble's flows (``hubble observe -o json``) have no text. Their line is written as its own output
for people is.
"""

from __future__ import annotations

from typing import Any

from diagnosis.values.json_values import JsonObject, object_in


def line_of(data: JsonObject) -> str:
    """The line of a flow with a verdict; empty for any other record."""
    flow = object_in(data.get("flow")) or data
    verdict = _text(flow, "verdict")
    addresses = object_in(flow.get("IP"))
    if not verdict or not addresses:
        return ""
    source, target = (_end(flow, addresses, side) for side in ("source", "destination"))
    reason = _text(flow, "drop_reason_desc").replace("_", " ").capitalize()
    words = (f"{source} <> {target}", _text(flow, "traffic_direction"), reason, verdict)
    return " ".join(filter(None, words))


def _end(flow: JsonObject, addresses: JsonObject, side: str) -> str:
    """One end of a connection: its pod, else its address, with its port."""
    pod = object_in(flow.get(side))
    name = "/".join(filter(None, (_text(pod, "namespace"), _text(pod, "pod_name"))))
    layers = object_in(flow.get("l4"))
    ports = (_text(object_in(layers.get(layer)), f"{side}_port") for layer in layers)
    return ":".join(filter(None, (name or _text(addresses, side), next(ports, ""))))


def _text(data: JsonObject, key: str) -> str:
    value: Any = data.get(key)
    return str(value)[:200] if isinstance(value, (str, int)) else ""
