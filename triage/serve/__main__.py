"""``python -m triage.serve``: the server's commands of ``faultline``, from a checkout; ``make run`` calls it."""

import sys

from triage.serve.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
