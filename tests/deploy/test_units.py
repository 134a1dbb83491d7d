"""The systemd units, the proxy's configuration and the compose file."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import yamls
from tests.patience import PATIENCE_S
from triage.places import ROOT
from triage.serve import parts

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def values(unit: Path, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit.read_text(), re.M)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    """With a command that exists here, because systemd looks for it."""
    name = unit.name.replace("@.", "@web.")
    (tmp_path / name).write_text(unit.read_text().replace("/opt/faultline/bin/faultline", "/bin/true"))
    argv = ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    told = [line for line in done.stderr.splitlines() if name in line]
    assert (done.returncode, told) == (0, []), done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_has_no_more_rights_than_it_needs(unit: Path) -> None:
    assert values(unit, "User") == ["faultline"]
    assert values(unit, "NoNewPrivileges") == ["yes"]
    assert values(unit, "ProtectSystem") == ["strict"]
    assert values(unit, "EnvironmentFile") == ["/etc/faultline/faultline.env"]


def test_all_units_are_confined_in_the_same_way() -> None:
    def confinement(unit: Path) -> list[str]:
        return [line for line in unit.read_text().partition("UMask=")[2].partition("[Install]")[0].split("\n") if line]

    one, other = map(confinement, UNITS)
    assert one == other
    assert len(one) > 15


def test_a_part_is_started_again_however_it_ended_and_a_reader_without_memory_ends_alone() -> None:
    unit = DEPLOY / "systemd" / "faultline@.service"
    assert values(unit, "Restart") == ["always"]
    assert values(unit, "StartLimitIntervalSec") == ["0"]
    assert values(unit, "OOMPolicy") == ["continue"], "the default ends the whole worker"


def test_one_unit_starts_every_part() -> None:
    assert values(DEPLOY / "systemd" / "faultline@.service", "ExecStart") == ["/opt/faultline/bin/faultline serve %i"]
    assert values(DEPLOY / "systemd" / "faultline-prepare.service", "ExecStart")[0].endswith("manage prepare")


def test_the_proxy_sends_where_the_server_listens() -> None:
    proxy = (DEPLOY / "nginx.conf").read_text()
    argv = parts.command("web", {"REDIS_URL": "redis://queue"})
    host, port = argv[argv.index("--host") + 1], argv[argv.index("--port") + 1]
    assert f"proxy_pass http://{host}:{port};" in proxy
    assert "X-Forwarded-Proto https" in proxy, "never the client's own header"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yamls.read((DEPLOY / "compose.yaml").read_text())
    return loaded


def test_compose_starts_each_part_after_the_migration(compose: dict[str, Any]) -> None:
    ours = {name: service for name, service in compose["services"].items() if "faultline" in service["image"]}
    started = {service["command"][1] for service in ours.values() if service["command"][0] == "serve"}
    assert started == set(parts.QUEUES) | {"web"}
    for name, service in ours.items():
        assert service["read_only"] is True, name
        assert service["user"] == "10001:10001", name
        assert service["cap_drop"] == ["ALL"], name
        before = set(service["depends_on"])
        assert before == ({"database", "queue"} if name == "prepare" else {"prepare"})


def test_compose_reaches_nothing_from_outside_but_the_site_on_this_machine(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert published == ["127.0.0.1:8000:8000"]


def test_each_container_is_asked_whether_it_works_and_has_a_limit_of_memory(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["mem_limit"], name
        if name == "prepare":  # it ends
            continue
        asked = service["healthcheck"]["test"]
        if service.get("command", ())[:1] == ["serve"]:
            assert asked == ["CMD", "faultline", "alive", name]


def test_no_log_of_a_container_grows_for_ever(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert set(service["logging"]["options"]) == {"max-size", "max-file"}, name


@pytest.mark.parametrize("variable", ["FAULTLINE_ALLOWED_HOSTS", "FAULTLINE_SITE_URL", "FAULTLINE_TLS"])
def test_the_sites_address_can_be_set_in_each_form(compose: dict[str, Any], variable: str) -> None:
    chart = yamls.read((DEPLOY / "helm" / "values.yaml").read_text())
    assert variable in chart["settings"]
    assert compose["services"]["web"]["environment"][variable].startswith(f"${{{variable}:-")
    assert f"\n{variable}=" in (DEPLOY / "systemd" / "faultline.env").read_text()


def test_images_have_a_version(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert re.search(r":v?\d[\w.]*(}|$)", service["image"]), service["image"]


def test_docker_compose_accepts_the_file() -> None:
    asked = ["docker", "compose", "version"]
    if not shutil.which("docker") or subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    argv = ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("dclint"), reason="dclint is not installed (npm install --global dclint)")
def test_the_linter_of_compose_files_finds_no_error() -> None:
    """Its warnings are about the order of names."""
    argv = ["dclint", "--quiet", str(DEPLOY / "compose.yaml")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_secrets_are_made_once(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    shutil.copy(DEPLOY / "secrets.sh", script)
    (tmp_path / "secrets").mkdir(mode=0o700)

    def made() -> dict[str, str]:
        subprocess.run([script], check=True, timeout=PATIENCE_S)
        return {path.name: path.read_text().strip() for path in (tmp_path / "secrets").iterdir()}

    first = made()
    assert set(first) == {"secret-key", "database-password", "database-url"}
    assert len(first["secret-key"]) == 64
    assert f":{first['database-password']}@database:" in first["database-url"]
    assert made() == first
    mode = stat.S_IMODE((tmp_path / "secrets" / "secret-key").stat().st_mode)
    assert mode == 0o644, "the user of the containers reads it; the directory keeps others out"
