"""Steps of a job, their chains, stages and waits, from flows alone."""
