"""Made-up jobs whose frameworks, launchers, vendors and wordings the rules were not written for."""
