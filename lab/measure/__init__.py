"""Commands that print figures: ``python -m lab.measure NAME``; ``python -m lab.measure`` lists them."""
