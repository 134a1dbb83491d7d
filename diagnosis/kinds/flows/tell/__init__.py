"""The report of flows: suspects, headline, ports, and the timeline as a trace."""
