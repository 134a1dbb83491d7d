"""The parts of the headline that logs and flows tell."""
