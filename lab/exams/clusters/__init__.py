"""Larger clusters in nine other voices, by an author who had not read the engine."""
