"""Place, moment, category and sentences from all clues of the logs."""
