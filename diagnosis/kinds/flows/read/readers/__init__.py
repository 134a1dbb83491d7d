"""Flow formats: each reader turns a byte stream into normalised records, a piece at a time.

The content decides the format; :data:`READERS` maps its name to the function that reads it.
"""

from __future__ import annotations

from diagnosis.kinds.flows.read.readers.base import Reader, Reading, UnusableFlows
from diagnosis.kinds.flows.read.readers.cloud import read_azure, read_google, sniff_cloud
from diagnosis.kinds.flows.read.readers.delimited import read_delimited, sniff_delimited
from diagnosis.kinds.flows.read.readers.jsonl import read_json_array, read_json_lines, sniff_json
from diagnosis.kinds.flows.read.readers.packets.pcap import read_pcap, sniff_pcap
from diagnosis.kinds.flows.read.readers.parquet import read_parquet

__all__ = ["READERS", "Reader", "Reading", "UnusableFlows", "sniff"]

READERS: dict[str, Reader] = {
    "parquet": read_parquet,
    "pcap": read_pcap,
    "json-lines": read_json_lines,
    "json-array": read_json_array,
    "azure": read_azure,
    "google": read_google,
    "delimited": read_delimited,
}


def sniff(head: bytes, path: str) -> str | None:
    """The name of the flow format that ``head`` (the first kilobytes of an artifact) begins, or None.

    ``path`` decides nothing by itself; content does. Never raises.
    """
    if head[:4] == b"PAR1":
        return "parquet"
    if sniff_pcap(head):
        return "pcap"
    return sniff_json(head) or sniff_cloud(head) or ("delimited" if sniff_delimited(head) else None)
