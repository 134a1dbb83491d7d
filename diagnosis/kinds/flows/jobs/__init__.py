"""Which hosts work together, in which parallel groups (LLMPrism)."""
