"""What the network saw: jobs, parallel groups, steps and slowness from flow records alone (after LLMPrism, arXiv 2505.00342).

``sniff`` and ``parse_flow`` read an artifact; ``diagnose_flows`` reads all flow artifacts of a job.
"""

from diagnosis.flows.engine import diagnose_flows
from diagnosis.flows.parsing import parse_flow
from diagnosis.flows.readers import sniff

__all__ = ["diagnose_flows", "parse_flow", "sniff"]
