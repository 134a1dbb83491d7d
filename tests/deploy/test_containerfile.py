"""The image's recipe."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S
from triage.places import ROOT

RECIPE = ROOT / "deploy" / "Containerfile"


def test_the_recipe_passes_its_linter() -> None:
    argv = [str(Path(sys.executable).with_name("hadolint")), "--format", "json", str(RECIPE)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert json.loads(done.stdout) == [], done.stderr


def test_the_image_runs_as_nobody_in_particular_and_writes_only_data() -> None:
    _, final = RECIPE.read_text().rsplit("\nFROM ", 1)
    assert re.search(r"^USER 10001:10001$", final, re.M)
    assert re.findall(r"^VOLUME (.*)$", final, re.M) == ["/var/lib/faultline"]
    assert "pip" not in final, "what builds stays in the first stage"


def test_the_recipe_copies_everything_that_the_wheel_is_made_of() -> None:
    copied = set(re.findall(r"^COPY (\w+) \w+$", RECIPE.read_text(), re.M))
    assert copied == {"client", "diagnosis", "docs", "ingest", "samples", "static", "templates", "triage"}


def test_the_page_on_installation_builds_and_starts_what_the_recipe_says() -> None:
    page, recipe = (ROOT / "docs" / "install.md").read_text(), RECIPE.read_text()
    assert set(re.findall(r"--build-arg (\w+)=", page)) == set(re.findall(r"^ARG (\w+)=", recipe, re.M))
    assert {ROOT / path for path in re.findall(r"-f (deploy/Container\S+)", page)} == {RECIPE}
    (started,) = re.findall(r"^podman run (.*)$", page, re.M)
    (volume,), (port,) = re.findall(r"^VOLUME (.*)$", recipe, re.M), re.findall(r"^EXPOSE (.*)$", recipe, re.M)
    assert f":{volume} " in started and f":{port} " in started and "--read-only" in started


def test_the_images_packages_are_the_tested_ones() -> None:
    """Its lock has the extras as well; all versions are those of the development lock."""
    locks = [
        dict(re.findall(r"^([a-z0-9][\w.-]*)==(\S+)", path.read_text(), re.M))
        for path in (ROOT / "deploy" / "requirements.lock", ROOT / "requirements-dev.lock", ROOT / "requirements.lock")
    ]
    image, tested, run = locks
    assert {"boto3", "pyjwt"} <= image.keys()
    assert run.items() <= image.items()
    assert {name: version for name, version in image.items() if tested.get(name) != version} == {}
