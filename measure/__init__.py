"""Commands that print figures: ``python -m measure NAME``; ``python -m measure`` lists them."""
