"""Which lines a failure began with: candidates, their weights, the choice, and its stand-in."""
