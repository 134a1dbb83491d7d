"""The site as a server sees it: bodies are received without a thread, a few threads make pages. See ``front``."""
