"""Which events are the cause: earlier launches, roots, what a job survived, its outcome and phase."""
