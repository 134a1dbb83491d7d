"""New ranges of a running job's logs, line by line."""
