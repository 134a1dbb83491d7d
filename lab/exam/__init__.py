"""An exam of incident diagnosis that any tool can take; README.md says how."""
