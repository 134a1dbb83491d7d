"""What a message means: rules for failures, words, stages, and what healthy jobs print."""
