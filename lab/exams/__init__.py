"""Worlds with known truth, on which the engine is measured: jobs, courses of events, network captures and hangs.

Nothing here imports the engine, the tests or the measuring commands, so that no rule is tested by its own words.
``python -m lab.measure`` lists the commands that print figures of them.
"""
