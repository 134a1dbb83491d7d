#!/usr/bin/env python3
"""Django's command line for Faultline."""

import sys

from triage.serve.commands import manage

if __name__ == "__main__":
    sys.exit(manage(sys.argv[1:]))
