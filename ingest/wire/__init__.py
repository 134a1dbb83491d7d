"""What collectors push: bodies of OpenTelemetry, Loki and JSON lines, and which job and file their lines belong to.

Pure: bytes and headers in, streams of rows out. ``services.collecting`` stores them.
"""
