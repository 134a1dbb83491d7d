"""What deploy/ starts is what `make run` starts, so that only one of them has to be known."""

import re
from pathlib import Path

import pytest

from triage.serve import supervisor

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(("unit", "number"), [("faultline-web.service", 0), ("faultline-worker.service", 1)])
def test_a_unit_uses_no_option_that_make_run_does_not_use(unit: str, number: int) -> None:
    command = re.search(r"^ExecStart=(.*)$", (ROOT / "deploy" / unit).read_text(), re.M)
    assert command
    ours = supervisor.children(Path("/data"), {}, "127.0.0.1", 8000)[number].argv
    theirs = command[1].split()
    assert {word for word in theirs if word.startswith("--")} <= set(ours)
    assert theirs[1:4] == ours[1:4]


def test_the_units_listen_where_the_proxy_sends() -> None:
    web = (ROOT / "deploy" / "faultline-web.service").read_text()
    proxy = (ROOT / "deploy" / "nginx.conf").read_text()
    port = re.search(r"--port (\d+)", web)
    assert port
    assert f"proxy_pass http://127.0.0.1:{port[1]};" in proxy
    assert "X-Forwarded-Proto https" in proxy, "never the client's own header"
