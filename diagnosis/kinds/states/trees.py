"""Facts as trees, whatever form states them: a line further right, an element, a key of a document
or an item of a list belongs to what is above it.

What names an object is found by structure: items of a list, titles with a number or a value, and
keys whose neighbours have the same keys below them are objects; all other titles are the way to a
property.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, filterfalse, pairwise, repeat, takewhile
from typing import Any, Final, NamedTuple
from xml.parsers import expat

from diagnosis import thresholds
from diagnosis.kinds.states.entries import MAX_DEPTH, Entry
from diagnosis.knowledge.late_patterns import late

THRESHOLDS: Final = thresholds.of("trees")

_MAX_NAME: Final = 60
_DIGIT: Final = late(r"\d")
#: What may be the name of an object: few words, and no sentence.
_NAME: Final = late(r"\S+(?: \S+){0,3}$")
_NUMBER: Final = late(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?%?", re.IGNORECASE)
#: A key that is a way from word to word.
_WAY: Final = late(r"[A-Za-z][\w\-]{0,60}(?:\.[\w\-/]{1,60}){0,23}\.[A-Za-z][\w\-/]{0,60}")
#: A long path of files, one of them a property.
_PATH: Final = late(r"(?:/?[\w.:\-]{1,60}/){3,23}[A-Za-z][\w\-]{0,60}")
#: The key of a name ("instanceId", "serial_name").
_NAME_KEY: Final = late(r".{0,40}(?:[_ \-](?:id|name|ID)|[a-z](?:Id|ID|Name))")
#: Keys by which an object is called, and those of a machine.
_NAME_KEYS: Final = (
    *("name", "id", "gpu", "gpu_id", "entity_id", "device"),
    *("memberid", "neuron_device_index", "@odata.id"),
)
NODE_KEYS: Final = frozenset(
    # a name a line
    {"node", "nodename", "host", "hostname", "host_name", "server", "machine", "resources"}
)
#: Where objects of Kubernetes and jobs of Slurm state their name and their machine.
_NAME_OF_OBJECT: Final = ("metadata", "name")
_NODE_OF_KIND: Final = {"Node": ("metadata", "name"), "Event": ("source", "host")}
_NODE_OF_POD: Final = ("spec", "nodeName")
_LOST_NODE: Final = ("failed_node",)


@dataclass(slots=True)
class Branch:
    """A title with what is below it, or a property with its value. ``is_item``: one of a list."""

    key: str
    value: str = ""
    line: int = 0
    is_item: bool = False
    below: list[Branch] = field(default_factory=list)


def of_json(value: Any, key: str = "", depth: int = 0) -> Branch:
    """The tree of a document. O(values)."""
    pairs = _below(value) if depth < MAX_DEPTH else ()
    below = [of_json(one, key, depth + 1) for key, one in pairs]
    is_leaf = isinstance(value, (str, int, float))
    return Branch(key, str(value) if is_leaf else "", is_item=not key, below=below)


def _below(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return ((str(key), one) for key, one in value.items())
    return zip(repeat(""), value if isinstance(value, list) else ())


def of_xml(text: str) -> Branch:
    """The tree of a document, and of a damaged one what came before. Entities are refused."""
    root = Branch("")
    opened = [root]
    parser = expat.ParserCreate()

    def begin(tag: str, attributes: dict[str, str]) -> None:
        own = [Branch(key, value, parser.CurrentLineNumber) for key, value in attributes.items()]
        branch = Branch(tag, line=parser.CurrentLineNumber, is_item=bool(attributes), below=own)
        if len(opened) <= MAX_DEPTH:
            opened[-1].below.append(branch)
        opened.append(branch)

    def end(_: str) -> None:
        opened.pop()

    def said(text: str) -> None:
        opened[-1].value += text.strip()

    def refuse(*_: Any) -> None:
        raise expat.ExpatError("entities are not read")

    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = said
    parser.EntityDeclHandler = refuse
    with suppress(expat.ExpatError, ValueError):
        parser.Parse(text, True)
    return next(iter(root.below), root)


_NOTHING: Final = Branch("")
#: Left of the title of a section.
_LEFTMOST: Final = -2


class Grower:
    """Grows a tree from lines, by how far right each of them is."""

    def __init__(self) -> None:
        self.root = Branch("")
        self._open = [(_LEFTMOST, self.root)]

    def add(self, indent: int, branch: Branch) -> None:
        """What the next line says; what follows further right is below it."""
        while self._open[-1][0] >= indent:
            self._open.pop()
        above = self._open[-1][1].below
        if branch.value and not branch.key:  # a row whose key stands above
            branch.key = next(reversed(above), _NOTHING).key
        above.append(branch)
        if len(self._open) < MAX_DEPTH:
            self._open.append((indent, branch))


def parted(root: Branch) -> Branch:
    """The tree whose keys with full stops ("gpu.0.state") are ways of branches. O(keys)."""
    whole = Branch("")
    _part_sentences(root.below)
    for child in root.below:
        *way, child.key = _way_of(child)
        at = whole
        for word in way:
            at = _last(at, word, child.line)
        at.below.append(child)
    return whole


def _way_of(branch: Branch) -> list[str]:
    """The words of a key that is a way of several words without a blank, else the key."""
    if branch.below:
        return [branch.key]
    if _PATH.fullmatch(branch.key):
        return list(filter(None, branch.key.split("/")))
    return branch.key.split(".") if _WAY.fullmatch(branch.key) else [branch.key]


def _last(branch: Branch, key: str, line: int) -> Branch:
    """The last title below a branch if it is called so, else a new one."""
    last = next(reversed(branch.below), _NOTHING)
    if (last.key, last.value) != (key, ""):
        last = Branch(key, line=line)
        branch.below.append(last)
    return last


def _part_sentences(below: Sequence[Branch]) -> None:
    """Objects in place of lines such as "port 3: state up, errors 7": the words that all lines have
    in the same place call a property.
    """
    alike: dict[int, list[Branch]] = defaultdict(list)
    for one in filterfalse(lambda one: one.below, below):
        alike[one.value.count(", ")].append(one)
    for count, lines in alike.items():
        pieces = [one.value.split(", ") for one in lines]
        keys = list(map(_common_words, zip(*pieces, strict=True)))
        if all(keys) and min(count + 1, len(lines)) >= THRESHOLDS.pieces:
            for one, own in zip(lines, pieces, strict=True):
                one.below = _properties(keys, own, one.line)
                one.value = ""


def _properties(keys: Sequence[str], pieces: Sequence[str], line: int) -> list[Branch]:
    words = zip(keys, pieces, strict=True)
    return [Branch(key, own[len(key) :].strip(), line) for key, own in words]


def _common_words(pieces: Sequence[str]) -> str:
    """The words with which all begin, but for the last word of any, and for numbers."""
    words = [piece.split() for piece in pieces]
    columns = zip(*(own[:-1] for own in words), strict=False)
    same = takewhile(_is_of_key, columns)
    return " ".join(first for first, *_ in same)


def _is_of_key(words: Sequence[str]) -> bool:
    return len({*words}) == 1 and _NUMBER.fullmatch(words[0]) is None


def titles(root: Branch) -> int:
    """How many lines say only what that which is below them belongs to. O(branches)."""
    above = filter(_has_below, root.below)
    return sum(_is_title(child) + titles(child) for child in above)


def _has_below(branch: Branch) -> bool:
    return bool(branch.below)


def _is_title(branch: Branch) -> bool:
    return (bool(branch.key), branch.value, branch.is_item) == (True, "", False)


class _Place(NamedTuple):
    """Where a branch is: the way to it, its object and its machine."""

    path: tuple[str, ...]
    part: str
    node: str


#: A branch, the way to it, and the place of what is below it.
type _Placed = tuple[Branch, tuple[str, ...], _Place]


def entries(root: Branch) -> Iterator[Entry]:
    """The properties of a tree, each with its object. O(branches x levels)."""
    pending = [(root, _Place((), "", ""))]
    while pending:
        branch, place = pending.pop()
        node = _node_of(branch) or place.node
        below = list(_with_places(branch, place._replace(node=node)))
        for child, way, own in below:
            if child.value and way:
                yield Entry(way, child.value, child.line, own.part, own.node)
        pending += [(child, own) for child, _, own in reversed(below)]


def _with_places(branch: Branch, place: _Place) -> Iterator[_Placed]:
    """What is below a branch, each with the way to it and the place of what is below that."""
    for name_of_record, group in _records(branch.below):
        part = _joined(place.part, name_of_record)
        alike = _alike(group)
        for child in group:
            name = _name_of(child, is_alike=child.key in alike) if child.below else ""
            way = (*place.path, *filter(None, [child.key]))
            below = place.path if name else way
            yield child, way, _Place(below, _joined(part, name), place.node)


def _joined(part: str, name: str) -> str:
    return f"{part} {name}".strip()[: 2 * _MAX_NAME]


def _pair(branch: Branch) -> str:
    return f"{branch.key} {branch.value}".strip()[:_MAX_NAME]


def _records(below: list[Branch]) -> Iterator[tuple[str, list[Branch]]]:
    """The properties of an object, without a name; of several objects, one after another with the
    same keys, those of each, with its name.
    """
    first = next(iter(below), _NOTHING).key
    begins = [at for at, child in enumerate(below) if child.key == first]
    is_list = bool(first) and _distance(begins) > 1
    if not is_list or any(map(_has_below, below)):
        yield "", below
        return
    for begin, end in zip(begins, [*begins[1:], len(below)], strict=True):
        yield _pair(below[begin]), below[begin:end]


def _distance(begins: Sequence[int]) -> int:
    """From the first beginning to the second; 0 without one."""
    return next((later - first for first, later in pairwise(begins)), 0)


def _alike(group: Sequence[Branch]) -> set[str]:
    """The keys of those of a group that have most keys below them in common: each is an object."""
    keys = {child.key: _keys_below(child) for child in filter(_is_title, group)}
    counts = Counter(chain.from_iterable(keys.values()))
    common = counts - Counter(counts.keys())
    shares = ((key, len(own & common.keys()) / max(1, len(own))) for key, own in keys.items())
    return {key for key, share in shares if share >= THRESHOLDS.alike}


def _keys_below(branch: Branch) -> set[str]:
    return {child.key for child in branch.below}


def _name_of(branch: Branch, *, is_alike: bool) -> str:
    """What an object is called; empty for a title that is the way to a property."""
    is_numbered = _DIGIT.search(branch.key) is not None
    if branch.is_item and not is_numbered:
        return f"{branch.key} {_stated_name(branch)}".strip()[:_MAX_NAME]
    is_object = any((is_alike, is_numbered, branch.value))
    return _pair(branch) if is_object else ""


def _stated_name(branch: Branch) -> str:
    """The name among the properties of an object: by its key, else the first one if it looks so."""
    stated = {child.key.lower(): _called(child) for child in branch.below}
    named = map(stated.get, _NAME_KEYS)
    like_names = (_called(child) for child in branch.below if _NAME_KEY.fullmatch(child.key))
    words = _NAME.match(next(filter(None, stated.values()), ""))
    first = words[0] if words is not None else ""
    return next(filter(None, [*named, *like_names, _at(branch, _NAME_OF_OBJECT), first]), "")


def _called(branch: Branch) -> str:
    """A name; a number with its key ("index 7")."""
    return _pair(branch) if branch.value.isdecimal() else branch.value


def _node_of(branch: Branch) -> str:
    """The machine that an object is, runs on, or names as its own; empty for anything else."""
    kind = _at(branch, ("kind",))
    own = [child for child in branch.below if child.key.lower() in NODE_KEYS]
    stated = (next(iter(child.below), child).value for child in own)
    ways = (_NODE_OF_KIND.get(kind, ()), _NODE_OF_POD, _LOST_NODE)
    named = (_at(branch, way) for way in ways)
    return next(filter(None, (*named, *stated)), "")


def _at(branch: Branch, way: Sequence[str]) -> str:
    """The value at the end of a way; empty where there is none."""
    for key in way:
        branch = next((child for child in branch.below if child.key == key), _NOTHING)
    return branch.value if way else ""
