"""State reports: what a tool says of a machine's parts at one moment (nvidia-smi, ibstat, sinfo, exporters).

A state report is not a log. It is read as facts (place, property, value), and each value is judged by the table of
faults (``bad_values.toml``). Rules for log lines never see it, so "Thermal slowdown: Not Active" accuses nobody.
"""

from diagnosis.kinds.states.report_sections import MAX_BYTES, parse, sniff

__all__ = ["MAX_BYTES", "parse", "sniff"]
