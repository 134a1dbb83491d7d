"""The site as an ASGI application: bodies are received without a thread, a few threads make pages. See ``front``."""
