"""All parts of the deciding modules that can be switched off or moved, found in their source.

Four kinds: a ``detector`` is a row of the tables of detectors and fallbacks; a ``step`` is a public function whose
neutral answer follows from its annotation (its own argument, None, False or nothing); a ``rules`` family is the first
part of signature ids; a ``threshold`` is a row of ``knowledge/thresholds*.toml``. Deciding modules are those that
``diagnosis.pipeline`` reaches and ``diagnosis.files.parsing`` does not, so logs need no second parsing.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import diagnosis
from diagnosis import thresholds as tables
from diagnosis.kinds.logs.causes.root_events import fallbacks
from diagnosis.kinds.logs.compare import detectors as node_detectors
from diagnosis.kinds.logs.meaning.signatures import SignatureSet, load

_ROOT = Path(diagnosis.__file__).parent.parent
#: Modules that describe or store an answer and decide nothing.
_TELLING_MODULES = (
    "diagnosis.advising.advice",
    "diagnosis.advising.ladder",
    "diagnosis.kinds.logs.decide.sentences",
    "diagnosis.kinds.logs.decide.timeline",
    "diagnosis.report",
    "diagnosis.records.result",
    "diagnosis.taxonomy",
    "diagnosis.records.tried",
)
_EXPRESSION = re.compile(r"\bre\.(?:compile|search|match|fullmatch|finditer|findall|sub|split)\(")
_JUDGING_MODULES = ("diagnosis.history", "diagnosis.evidence.inventory")
_NEUTRAL_VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "bool": lambda: False,
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
}
#: The package whose data files a module reads, and the files that are data.
_DATA_PACKAGE = re.compile(r"resources\.files\(['\"](diagnosis[\w.]*)['\"]\)")
#: A use of one table, or (without quotes) of any table of words.
_TABLE_USE = re.compile(r"\btable\((?:'(\w+)'(?:, '(diagnosis[\w.]*)')?|name)\)")
_DATA_SUFFIXES = frozenset((".toml", ".csv", ".json"))
#: The module that reads the tables of numbers, and a use of one of its sections.
_NUMBERS = "diagnosis.thresholds"
_SECTION_USE = re.compile(r"thresholds\.(of|limits)\(['\"](\w+)['\"]\)")


@dataclass(frozen=True)
class Switch:
    """One change: a function made neutral, a family of rules removed, or a number set to another value."""

    kind: str
    id: str
    module: str = ""
    name: str = ""
    value: float = 0.0

    @property
    def label(self) -> str:
        """How a table names it."""
        return f"{self.id} = {self.value:g}" if self.kind == "threshold" else self.id


@cache
def _source(module: str) -> str:
    base = _ROOT / module.replace(".", "/")
    path = next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()), None)
    return path.read_text(encoding="utf-8") if path else ""


@cache
def _tree(module: str) -> ast.Module | None:
    return ast.parse(_source(module)) if _source(module) else None


@cache
def _imported(module: str) -> tuple[tuple[str, str, str], ...]:
    """Module, name and local name of what ``module`` imports from the engine."""
    return tuple(
        (node.module or "", alias.name, alias.asname or alias.name)
        for node in ast.walk(_tree(module) or ast.Module([], []))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("diagnosis")
        for alias in node.names
    )


#: The table of kinds names what judges their files; reading calls none of it.
_READING = "diagnosis.files.parsing"
_NOT_READ = ("diagnosis.kinds.states.judgement",)


@cache
def _places(module: str, name: str) -> tuple[tuple[str, str], ...]:
    """The modules that hold a name: its own, and those that imported it by name."""
    others = (
        (other, local)
        for other in sorted(reached_modules("diagnosis.pipeline"))
        for base, what, local in _imported(other)
        if (base, what) == (module, name)
    )
    return ((module, name), *others)


@cache
def reached_modules(module: str) -> frozenset[str]:
    """The modules of the engine that ``module`` imports, directly or not, and itself."""
    modules: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        is_left_out = module == _READING and name in _NOT_READ
        if name not in modules and not is_left_out and _tree(name) is not None:
            modules.add(name)
            todo += [part for base, what, _ in _imported(name) for part in (base, f"{base}.{what}")]
    return frozenset(modules)


def deciding_modules() -> list[str]:
    """The modules in which the log engine decides."""
    both = reached_modules("diagnosis.pipeline") - reached_modules("diagnosis.files.parsing")
    return sorted(
        m
        for m in both
        if not m.startswith(("diagnosis.kinds.flows", "diagnosis.kinds.stacks")) and m not in _TELLING_MODULES
    )


def digest(of: str) -> str:
    """A hash over the source that ``of`` reaches, and over the data files that any of it reads: stored results with
    another hash are stale. Parsing reads none of the log engine's thresholds and rules, so that a change of them needs
    no new parse."""
    hasher, read = hashlib.sha256(), set[Path]()
    for module in sorted(reached_modules(of)):
        source = ast.unparse(_tree(module) or ast.Module([], []))
        read |= _data_files(module, source)
        hasher.update(source.encode())
    for path in sorted(read):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:16]


def _data_files(module: str, source: str) -> set[Path]:
    """The data files that a module reads: those of the package that it names, and the tables of numbers by use."""
    knowledge = _ROOT / "diagnosis" / "knowledge"
    if module == _NUMBERS:
        return set()
    found = {_file_of_section(function, section) for function, section in _SECTION_USE.findall(source)}
    for name, package in _TABLE_USE.findall(source):
        folder = _ROOT.joinpath(*package.split(".")) if package else knowledge
        found |= set(folder.glob(f"{name or '*'}.toml"))
    for package in _DATA_PACKAGE.findall(source):
        folders = [_ROOT.joinpath(*package.split("."))]
        folders += [knowledge] if package == "diagnosis" else []
        found |= {path for folder in folders for path in folder.iterdir() if path.suffix in _DATA_SUFFIXES}
    return found


def _file_of_section(function: str, section: str) -> Path:
    """The file of ``knowledge/`` that holds a section of thresholds (``of``) or ``limits``."""
    files = tables.FILES["thresholds" if function == "of" else "limits"]
    paths = [_ROOT / "diagnosis" / "knowledge" / f"{file}.toml" for file in files]
    return next(path for path in paths if f"[{section}]\n" in path.read_text(encoding="utf-8"))


def limits() -> list[str]:
    """Named numbers in the code of deciding modules: limits of reading, listing and memory. They decide nothing."""
    return [f"{module}.{name}" for module in deciding_modules() for name in _typed(module)]


def thresholds(factor: float) -> list[Switch]:
    """Every number of ``knowledge/thresholds*.toml``, times ``factor`` (whole ones by one at least). Lists and tables,
    whose numbers belong together, are not moved."""
    return [
        Switch("threshold", f"{section}.{name}", section, name, _scaled(value, factor))
        for section in tables.sections()
        for name, value in vars(tables.of(section)).items()
        if isinstance(value, int | float)
    ]


def sizes() -> dict[str, tuple[int, int, int]]:
    """Lines that are not blank, named numbers and regular expressions of each module in which the logs are judged:
    those of ``diagnosis.kinds.logs`` that decide, the classifier, the history and the inventory."""
    modules = [m for m in deciding_modules() if m.startswith("diagnosis.kinds.logs") or m in _JUDGING_MODULES]
    return {
        m: (
            sum(bool(line.strip()) for line in _source(m).splitlines()),
            len(list(_typed(m))),
            len(_EXPRESSION.findall(_source(m))),
        )
        for m in modules
    }


def size() -> tuple[int, int, int]:
    """The sums of :func:`sizes`."""
    lines, typed, expressions = zip(*sizes().values(), strict=True)
    return sum(lines), sum(typed), sum(expressions)


def _scaled(value: float, factor: float) -> float:
    if not isinstance(value, int):
        return value * factor
    return max(round(value * factor), value + 1) if factor > 1 else min(round(value * factor), value - 1)


def _typed(module: str) -> Iterator[str]:
    """Names of the numbers in the code of a module."""
    for node in (_tree(module) or ast.Module([], [])).body:
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Constant | ast.BinOp):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            value = getattr(importlib.import_module(module), target.id) if isinstance(target, ast.Name) else None
            if isinstance(target, ast.Name) and isinstance(value, int | float) and not isinstance(value, bool):
                yield target.id


def families() -> list[Switch]:
    """The families of the built-in rules."""
    names = dict.fromkeys(s.id.partition(".")[0] for s in load().signatures)
    return [Switch("rules", name) for name in sorted(names)]


def without_family(family: str) -> SignatureSet:
    """The built-in rules without one family."""
    return SignatureSet(s for s in load().signatures if s.id.partition(".")[0] != family)


@cache
def steps() -> list[Switch]:
    """Functions of deciding modules whose neutral answer is known."""
    found = []
    for module in deciding_modules():
        short = module.removeprefix("diagnosis.").removeprefix("kinds.logs.")
        for node in (_tree(module) or ast.Module([], [])).body:
            if isinstance(node, ast.FunctionDef):
                function = getattr(importlib.import_module(module), node.name)
                if inspect.isfunction(inspect.unwrap(function)) and _neutral(function) is not None:
                    found.append(Switch("step", f"{short}.{node.name}", module, node.name))
    return found


def _neutral(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """A function with the neutral answer for the arguments of ``function``; None if its annotation gives none."""
    signature = inspect.signature(function)
    returned = str(signature.return_annotation)
    for name, parameter in signature.parameters.items():
        if str(parameter.annotation) == returned and "str" not in returned and "int" not in returned:
            return lambda *args, **kwargs: signature.bind(*args, **kwargs).arguments[name]
    parts = {part.strip().partition("[")[0] for part in returned.split("|")}
    kind = "None" if "None" in parts else next((p for p in _NEUTRAL_VALUES if p in parts), None)
    return None if kind is None else lambda *_, **__: _NEUTRAL_VALUES[kind]()


def detectors() -> list[Switch]:
    """The detectors of faulty nodes, and the rows of the tables of corrections and fallbacks."""
    every = (*node_detectors.ALL, *fallbacks.CORRECTIONS, *fallbacks.FALLBACKS)
    return [Switch("detector", detector.id) for detector in every]


def switched_off_ids(switches: Sequence[Switch]) -> frozenset[str]:
    """The ids of detectors among ``switches``, for the argument ``without`` of ``diagnose``."""
    return frozenset(switch.id for switch in switches if switch.kind == "detector")


@contextlib.contextmanager
def patched(module: str, name: str, value: Any) -> Iterator[None]:
    """``module.name`` is ``value``, also where other modules imported it by name."""
    holders = [(importlib.import_module(m), n) for m, n in _places(module, name)]
    former = [getattr(m, n, None) for m, n in holders]
    for holder, local in holders:
        setattr(holder, local, value)
    try:
        yield
    finally:
        for (holder, local), old in zip(holders, former, strict=True):
            setattr(holder, local, old)


@contextlib.contextmanager
def applied(switches: Sequence[Switch]) -> Iterator[SignatureSet | None]:
    """Apply all of ``switches``; yields the rules to diagnose with, None for the usual ones."""
    with contextlib.ExitStack() as stack:
        rules = None
        for switch in switches:
            if switch.kind == "rules":
                rules = without_family(switch.id)
            elif switch.kind == "threshold":
                table = tables.of(switch.module)
                usual = getattr(table, switch.name)
                stack.callback(setattr, table, switch.name, usual)
                setattr(table, switch.name, type(usual)(switch.value))
            elif switch.kind == "step":
                function = getattr(importlib.import_module(switch.module), switch.name)
                stack.enter_context(patched(switch.module, switch.name, _neutral(function)))
        yield rules


@contextlib.contextmanager
def used_steps(switches: Sequence[Switch]) -> Iterator[set[Switch]]:
    """The steps that returned another answer than the neutral one meanwhile: only their absence can change anything."""
    used: set[Switch] = set()

    def watched(switch: Switch, function: Callable[..., Any]) -> Callable[..., Any]:
        neutral = _neutral(function)
        assert neutral is not None

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            found = function(*args, **kwargs)
            if switch not in used and not _same(found, neutral(*args, **kwargs)):
                used.add(switch)
            return found

        return call

    with contextlib.ExitStack() as stack:
        for switch in switches:
            function = getattr(importlib.import_module(switch.module), switch.name)
            stack.enter_context(patched(switch.module, switch.name, watched(switch, function)))
        yield used


@contextlib.contextmanager
def read_thresholds() -> Iterator[set[str]]:
    """The ids of the thresholds that are read meanwhile: only they can change an answer."""
    seen: set[str] = set()
    section_of = {id(tables.of(section)): section for section in tables.sections()}
    usual = tables.Table.__getattribute__

    def read(table: tables.Table, name: str) -> Any:
        if not name.startswith("_") and id(table) in section_of:
            seen.add(f"{section_of[id(table)]}.{name}")
        return usual(table, name)

    tables.Table.__getattribute__ = read  # type: ignore[method-assign, assignment]
    try:
        yield seen
    finally:
        del tables.Table.__getattribute__


@contextlib.contextmanager
def used_detectors() -> Iterator[set[str]]:
    """The ids of detectors, corrections and fallbacks that had a result meanwhile: only their absence can change
    anything.
    """
    spoke: set[str] = set()
    seen = node_detectors.all_clues

    def listen(asked: Sequence[Any], case: Any) -> list[Any]:
        found = seen(asked, case)
        spoke.update(clue.detector for clue in found)
        return found

    def listening(rule: fallbacks.Rule) -> fallbacks.Rule:
        def act(facts: Any, weights: Any) -> Any:
            changed = rule.act(facts, weights)
            if changed is not None and not changed.equals(weights):
                spoke.add(rule.id)
            return changed

        return replace(rule, act=act)

    tables = {"CORRECTIONS": fallbacks.CORRECTIONS, "FALLBACKS": fallbacks.FALLBACKS}
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched("diagnosis.kinds.logs.compare.detectors", "all_clues", listen))
        for name, rules in tables.items():
            stack.enter_context(
                patched("diagnosis.kinds.logs.causes.root_events.fallbacks", name, tuple(map(listening, rules)))
            )
        yield spoke


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if hasattr(one, "equals"):
        return bool(one.equals(other))
    try:
        return bool(one == other)
    except Exception:  # values that cannot be compared count as different
        return False
