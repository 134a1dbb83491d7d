"""Judges the facts of state reports by the table of faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from diagnosis import taxonomy
from diagnosis.evidence import Check, Fact, Outcome, Result, number_of
from diagnosis.kinds import checks
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.states import bad_values, formats
from diagnosis.kinds.states.bad_values import FaultRow
from diagnosis.kinds.states.formats import Format
from diagnosis.kinds.states.peers import Peers, object_of
from diagnosis.kinds.states.report_sections import facts_of_formats
from diagnosis.model import Parsed, Role
from diagnosis.values import numbers

#: Bad values of one file that become results, the strongest first; others repeat them.
MAX_RESULTS: Final = 16
#: What a description of a pod tells of the time before a container began again, and of now.
_FORMER: Final = ".Last State."
_NOW: Final = ".State"
type _Ids = frozenset[str]
#: A line for the rules that know a driver's codes.
_XID_LINE: Final = "NVRM: Xid (PCI:0000:00:00): {code}, pid=0"


def analyse(parsed: Sequence[Parsed]) -> list[Result]:
    """The bad values of all reports. Linear in the facts."""
    found: list[Result] = []
    for one in sorted(parsed, key=lambda p: p.path):
        found += _of_report(one)
    return found


def _of_report(parsed: Parsed) -> list[Result]:
    found = facts_of_formats(parsed)
    facts = [fact for _, fact in found]
    rows = _rows_by_name((ids, fact.name) for ids, fact in found)
    peers = Peers(facts)
    now = [fact for fact in facts if fact.name.endswith(_NOW)]
    states = {fact.name.removesuffix(_NOW): fact.value for fact in now}
    bad: dict[tuple[str, str], Result] = {}
    for ids, fact in sorted(found, key=lambda row: not row[1].part):  # what names a part says more
        for row in rows[ids, fact.name]:
            category = _category(row, ids, fact, peers)
            if category:
                result = _result(parsed.path, ids, row, category, fact)
                bad.setdefault((row.id, fact.place.name), _in_time(result, fact, states))
                break
    strongest = sorted(bad.values(), key=lambda result: -result.outcome.ratio)
    return strongest[:MAX_RESULTS]


def _in_time(result: Result, fact: Fact, states: Mapping[str, str]) -> Result:
    """The result with its time: before a container that runs began again, or how it ended.
    ``states``: the state of each container.
    """
    container, _, former = fact.name.partition(_FORMER)
    if former:
        return replace(result, is_former=states.get(container) == "Running")
    container, _, now = fact.name.partition(f"{_NOW}.")
    return replace(result, is_end=bool(now) and states.get(container) == "Terminated")


def _rows_by_name(names: Iterable[tuple[_Ids, str]]) -> dict[tuple[_Ids, str], list[FaultRow]]:
    """The rows that judge each property of these formats: reports repeat few names."""
    return {key: [row for row in bad_values.load() if row.is_about(*key)] for key in set(names)}


def _category(row: FaultRow, ids: _Ids, fact: Fact, peers: Peers) -> str:
    """The category of a bad value; empty for a good one."""
    is_such = row.value is None or row.value.match(fact.value) is not None
    if not (is_such and _is_judged(row, fact, peers)):
        return ""
    if row.reads == "rules":
        return _category_of_text(fact.value)
    if row.reads == "xid":
        whole_part = fact.value.split(".")[0]
        code = numbers.whole(whole_part)
        return _category_of_text(_XID_LINE.format(code=code)) if code else ""
    if row.has_limit and not _is_beyond(row, fact, peers):
        return ""
    return row.category_for(ids)


def _is_judged(row: FaultRow, fact: Fact, peers: Peers) -> bool:
    """Whether a row says anything about such a part and such a value."""
    place, part, way = object_of(fact)
    whole = place, "", way.rpartition(".")[0]
    if row.unless_well and not peers.well.isdisjoint([(place, part, way), whole]):
        return False
    if row.unlike_peers and not peers.is_unlike(fact):
        return False
    is_of_part = row.part.search(fact.part) is not None
    return is_of_part and (row.judges_no or not bad_values.says_no(fact.value))


def _is_beyond(row: FaultRow, fact: Fact, peers: Peers) -> bool:
    """Whether the number of a value is beyond a limit, that of its part, or that of its peers."""
    number = _number(row, fact.value)
    if number is None or (row.above is not None and number <= row.above):
        return False
    if row.beside is not None or row.below_property is not None:
        return _is_beyond_its_limit(row, fact, number, peers)
    usual = peers.usual(fact)
    if row.below_peers is not None:
        least = usual if row.unlike_peers else peers.greatest[fact.place.name, fact.name]
        return number < row.below_peers * (least or 0.0)
    return number > (row.above_peers or 0.0) * (usual or 0.0)


def _is_beyond_its_limit(row: FaultRow, fact: Fact, number: float, peers: Peers) -> bool:
    """Whether a number is beyond that of another property of the same part."""
    if row.beside is not None:
        limit = peers.limit(fact, row.beside)
    else:
        other = fact.name.lower().replace(*(row.below_property or ("", "")))
        limit = peers.numbers.get((fact.place.name, fact.part, other), 0.0)
    if row.above_share is not None:
        return number >= row.above_share * limit
    return number < row.below_share * limit


def _number(row: FaultRow, value: str) -> float | None:
    """The number of a value; 0 for words of nothing to compare ("<inactive>")."""
    if row.below_peers is None or row.value is None:
        return number_of(value)
    says_nothing = row.value.match(value) is not None
    return 0.0 if says_nothing else number_of(value)


def _category_of_text(text: str) -> str:
    """The category that the rules for messages give a text; empty if it names no cause."""
    rules = signatures.load()
    found = rules.match_texts([text])[0]
    rule = rules.rule(found) if found else None
    return rule.category if rule is not None and rule.role is Role.ROOT else ""


def _check_of(form: Format, outcome: Outcome) -> Check:
    """The check of which the report is the output, so that it is not offered again; else one that stands for it."""
    known = next((check for check in checks.load() if check.id == form.check), None)
    return known or Check(form.id, form.title, "", "", 0.0, "node", (), (), (outcome,))


def _result(path: str, ids: frozenset[str], row: FaultRow, category: str, fact: Fact) -> Result:
    known = (*formats.load(), *formats.load_layouts())
    form = next(one for one in known if one.id in ids)
    leaf = taxonomy.load().get(category)
    # a program that crashed says nothing against the machine that it ran on
    is_of_program = leaf.category == "user"
    against_place = 1.0 if is_of_program else row.ratio
    outcome = Outcome(row.id, row.says, against_place, categories={leaf.id: row.ratio}, adds=leaf.id)
    check = _check_of(form, outcome)
    stated = f"{fact.name}: {fact.value}"
    words = " ".join(filter(None, (fact.part, stated)))
    return Result(check, outcome, path, fact.line, words, fact.place.name, "node", form.is_run)
