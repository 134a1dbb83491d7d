"""Receives evidence, checks it, stores it once, parses it once."""
