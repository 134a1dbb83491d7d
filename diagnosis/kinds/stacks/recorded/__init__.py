"""What communication libraries recorded: flight recorders, RAS."""
