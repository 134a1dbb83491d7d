#!/usr/bin/env python3
"""Django's command line for Faultline."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415  # a clear error needs the path set first

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
