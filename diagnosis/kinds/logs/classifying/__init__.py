"""The category of messages, by rules and by what was learned from their words."""
