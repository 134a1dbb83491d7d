"""The shapes of reports whose format is known: tables, JSON, traces, values over time."""
