"""What reports hold: of the logs, of advice, of all else; and which actions were tried."""
