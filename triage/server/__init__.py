"""The site as a server sees it: bodies arrive without a thread, pages are made by a few threads (ARCHITECTURE.md)."""
