"""The category tree that every verdict points into.

The tree is data (``taxonomy.toml``): ids are dotted, leaves carry advice and the pair (category, subcategory) that a
report shows. Several leaves may share a pair; the first one in the file is the pair's own leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

import msgspec
from msgspec.structs import replace

from diagnosis.knowledge.knowledge_files import parsed

UNKNOWN = "unknown"
NONE = "none"
#: Whom a line may accuse.
BLAMES = ("machine", "program", "nobody")


class TaxonomyError(ValueError):
    """The tree contradicts itself; the message says where."""


class Category(msgspec.Struct, frozen=True):
    """One node of the tree. ``advice``, ``category``, ``subcategory`` and ``words`` are empty for inner nodes.

    ``words``: usual words for this kind of failure, lower case; the learned part of classification starts from them,
    and no rule matches them. What a category implies for the diagnosis (``blames``, ``traits``, ``stage``, ``matter``)
    is explained at the top of the file and inherited from the parent.
    """

    id: str
    title: str
    explanation: str
    advice: str = ""
    category: str = ""
    subcategory: str = ""
    words: str = ""
    blames: str = ""
    traits: tuple[str, ...] = ()
    stage: str = ""
    matter: str = ""

    @property
    def is_leaf(self) -> bool:
        """Whether a verdict may name this node."""
        return bool(self.subcategory)

    @property
    def root(self) -> str:
        """The first part of the id (``hardware``, ``user`` …)."""
        return self.id.partition(".")[0]


#: What the first parts of the ids inherit.
_ABOVE_ALL = Category("", "", "", blames="machine")


class Taxonomy(msgspec.Struct, frozen=True):
    """All categories by id, in the order of the file."""

    categories: Mapping[str, Category]

    def __iter__(self) -> Iterator[Category]:
        return iter(self.categories.values())

    def __contains__(self, category_id: object) -> bool:
        return category_id in self.categories

    def __getitem__(self, category_id: str) -> Category:
        return self.categories[category_id]

    def get(self, category_id: str) -> Category:
        """The category of this id; ids of other versions fall back to their nearest parent, then ``unknown``."""
        while category_id:
            if found := self.categories.get(category_id):
                return found
            category_id = category_id.rpartition(".")[0]
        return self.categories[UNKNOWN]

    def having(self, trait: str, ids: Iterable[str | None]) -> list[str]:
        """The members of ``ids`` whose category has this trait."""
        return sorted({i for i in ids if i and trait in self.get(i).traits})

    def leaves(self) -> tuple[Category, ...]:
        """Every category that a verdict may name."""
        return tuple(node for node in self if node.is_leaf)

    def leaf_of(self, category: str, subcategory: str) -> Category | None:
        """The leaf of a report's pair, or None."""
        pair = (category, subcategory)
        return next((node for node in self if (node.category, node.subcategory) == pair), None)

    def path(self, category_id: str) -> tuple[str, ...]:
        """Titles from the top to ``category_id``, for a breadcrumb."""
        parts = category_id.split(".")
        ids = (".".join(parts[: n + 1]) for n in range(len(parts)))
        return tuple(self.categories[i].title for i in ids if i in self.categories)


def parse(text: str) -> Taxonomy:
    """Read a tree from TOML.

    Raises:
        TaxonomyError: two nodes share an id, a text is missing, or a leaf has children.
    """
    found: dict[str, Category] = {}
    for row in parsed(text).get("category", []):
        node = Category(**{**row, "traits": tuple(row.get("traits", ()))})
        if node.id in found:
            raise TaxonomyError(f"category {node.id} is there twice")
        if not (node.title and node.explanation):
            raise TaxonomyError(f"category {node.id} needs a title and an explanation")
        if node.is_leaf and not (node.advice and node.category):
            raise TaxonomyError(f"leaf {node.id} needs advice and a category")
        parent = found.get(node.id.rpartition(".")[0])
        if parent and parent.is_leaf:
            raise TaxonomyError(f"{node.id} lies below {parent.id}, which is a leaf")
        found[node.id] = _with_inherited(node, parent)
    if UNKNOWN not in found or NONE not in found:
        raise TaxonomyError(f"the tree needs the leaves {UNKNOWN!r} and {NONE!r}")
    return Taxonomy(found)


def _with_inherited(node: Category, parent: Category | None) -> Category:
    """``node`` with missing implications taken from its parent."""
    above = parent or _ABOVE_ALL
    is_shared = node.id.count(".") > 1 or above.matter != above.id
    inherited = above.matter if is_shared else ""
    return replace(
        node,
        blames=node.blames or above.blames,
        traits=node.traits or above.traits,
        stage=node.stage or above.stage,
        matter=node.matter or inherited or node.id,
    )


@cache
def load() -> Taxonomy:
    """The tree that ships with the engine."""
    return parse(resources.files("diagnosis").joinpath("taxonomy.toml").read_text(encoding="utf-8"))
