"""Which node differs: between nodes (detectors), between iterations, and in mixed evidence."""
