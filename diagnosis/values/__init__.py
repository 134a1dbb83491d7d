"""Numbers, text and JSON from outside, read safely, and the statistics that all kinds of evidence share."""
