"""Lines and fields out of what wraps them: JSON, logfmt, exports of collectors and pods."""
