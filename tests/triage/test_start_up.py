"""What a web process loads: it starts in two seconds, and again after each crash."""

import os
import subprocess
import sys

from tests.patience import WORK_S
from triage.places import ROOT

#: libraries of the engine and of charts that no list and no form needs
SELDOM = ("numba", "pandas", "plotly", "scipy", "sklearn", "diagnosis.pipeline", "diagnosis.files.parsing")
PROGRAM = f"""
import gc, sys
import triage.asgi
print(*(name for name in {SELDOM!r} if name in sys.modules))
print(gc.isenabled(), gc.get_freeze_count() > 100_000)
"""


def test_the_site_starts_without_the_engine_and_what_it_loads_is_searched_for_no_cycles() -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=env, capture_output=True, text=True, timeout=WORK_S, check=False
    )
    assert (done.stdout.splitlines(), done.returncode) == (["", "True True"], 0), done.stderr[-2000:]
