"""Values of nodes side by side: what most state, which one is odd, what drifts."""
