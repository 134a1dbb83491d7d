"""Larger clusters, written apart from the engine by somebody who had not read it, in the words of nine other voices."""
