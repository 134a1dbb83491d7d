"""An exam of the log engine on made-up jobs whose frameworks, launchers, vendors and wordings its rules were not
written for; ``python -m bench.unseen``."""
