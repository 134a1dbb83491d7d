"""How work is done, whatever it is about: budgets of time, compiled loops, streams read once, faults."""
