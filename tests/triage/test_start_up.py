"""What a web process loads: it starts in two seconds, and again after each crash."""

import os
import subprocess
import sys

from tests.patience import WORK_S
from triage.places import ROOT

#: libraries of the engine and of charts that no list and no form needs
SELDOM = ("numba", "pandas", "plotly", "scipy", "sklearn", "diagnosis.pipeline", "diagnosis.parsing")
PROGRAM = f"""
import sys
import django
django.setup()
import triage.urls
print(*(name for name in {SELDOM!r} if name in sys.modules))
"""


def test_the_site_starts_without_the_engine() -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=env, capture_output=True, text=True, timeout=WORK_S, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr[-2000:]
