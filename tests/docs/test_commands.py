"""Commands in the documents exist, with their options; `test_guides` runs those of whole blocks."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from diagnosis.__main__ import _parser as engine_parser
from faultline import live, options

DOCS = (Path("README.md"), *sorted(Path("docs").glob("*.md")), *sorted(Path("lab").rglob("*.md")))
#: In code, in a block or a line of text, up to what a shell would not pass on.
CLIENT = re.compile(r"(?:^|[`\s/])(?:faultline|faultline\.pyz) ((?:upload|follow|run|watch|status|check) [^`\n#|&;]*)")
ENGINE = re.compile(r"python -m diagnosis ([^`\n#|>]*)")
MANAGE = re.compile(r"(?:manage\.py|faultline manage) (\w+)([^`\n#|>]*)")
MEASURE = re.compile(r"python -m lab.measure\s+(\w+)([^`#|]*)[`\n]")


def _commands(pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    """(document, groups …) of each command; a line that ends with a backslash goes on."""
    texts = [(path.name, path.read_text(encoding="utf-8").replace("\\\n", " ")) for path in DOCS]
    return [(name, *found.groups()) for name, text in texts for found in pattern.finditer(text)]


def _is_whole(command: str) -> bool:
    """Whether it is a command and not its name alone: `faultline follow`, `faultline upload DIR…`."""
    return "-" in command.partition(" ")[2] and "…" not in command


@pytest.mark.parametrize(("name", "command"), [row for row in _commands(CLIENT) if _is_whole(row[1])])
def test_a_command_of_the_client_has_these_options(name: str, command: str) -> None:
    given, _ = live.split(shlex.split(re.sub(r"\$\{\w+:-(.*?)\}", r"\1", command)))
    try:
        options.parser().parse_args(given)
    except SystemExit as end:
        assert not end.code, f"{name}: faultline {command}"


@pytest.mark.parametrize(("name", "module", "rest"), _commands(MEASURE))
def test_a_measurement_has_these_options(name: str, module: str, rest: str) -> None:
    source = Path(str(importlib.import_module(f"lab.measure.{module}").__file__)).read_text(encoding="utf-8")
    for option in re.findall(r"--[a-z][a-z-]*", rest):
        assert f'"{option}"' in source, f"{name}: python -m lab.measure {module} has no {option}"


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """All options of a program and of its commands."""
    found = {option for action in parser._actions for option in action.option_strings}
    below = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return found.union(*(_options(command) for commands in below for command in commands.values()))


def _given(words: str) -> set[str]:
    return set(re.findall(r"(?<!\S)--[a-z][a-z-]*", words))


@pytest.mark.parametrize(("name", "words"), _commands(ENGINE))
def test_a_command_of_the_engine_has_these_options(name: str, words: str) -> None:
    assert _given(words) - _options(engine_parser()) == set(), f"{name}: python -m diagnosis {words}"


@pytest.mark.parametrize(("name", "command", "words"), [row for row in _commands(MANAGE) if _given(row[2])])
def test_a_command_of_the_site_has_these_options(name: str, command: str, words: str) -> None:
    known = _options(load_command_class(get_commands()[command], command).create_parser("manage.py", command))
    assert _given(words) - known == set(), f"{name}: manage.py {command} {words}"
