"""Changes of a job's files that must not change its diagnosis, or only in ways that are said."""
