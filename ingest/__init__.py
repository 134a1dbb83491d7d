"""Receives evidence, checks it, stores each file once and parses it once."""
