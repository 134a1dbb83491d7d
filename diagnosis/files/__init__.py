"""From paths to parsed files: which there are, what kind each is, what became of each."""
