"""Beside the product: worlds with known truth, the commands that measure by them, and their figures."""
