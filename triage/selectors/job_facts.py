"""The Facts tab of a job: what its reports state of each place, and which place differs from the
others or from the last healthy job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.db.models import OuterRef, Subquery

from diagnosis.facts import fact_table
from ingest.models import Job
from triage.diagnosis_tables import table_path
from triage.models import Diagnosis
from triage.selectors.healthy_jobs import healthy_of
from triage.selectors.jobs import JobView, jobs_visible_to

if TYPE_CHECKING:
    import polars as pl

#: properties of one page
PAGE_SIZE: Final = 100
#: places that are shown side by side; a search shows others
MAX_PLACES: Final = 6
#: latest healthy jobs of which one with facts is looked for
MAX_HEALTHY: Final = 20
CSV_COLUMNS: Final = (
    *("property", "part", "place", "value"),
    *("usual_value", "differs", "file", "line"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """What one place states. ``path`` and ``line`` say where; ``line`` is 0 if it has no lines."""

    value: str
    path: str
    line: int
    is_odd: bool


@dataclass(frozen=True, slots=True)
class PropertyRow:
    """One property of one part on all places.

    ``usual``: what most state, empty if there is no such value; ``values`` and ``places``: how many
    there are; ``before``: what was usual in the last healthy job.
    """

    name: str
    part: str
    usual: str
    values: int
    places: int
    before: str
    cells: list[Cell | None]

    @property
    def has_changed(self) -> bool:
        """Whether most places state another value than those of the last healthy job."""
        is_known = bool(self.usual and self.before)
        return is_known and fact_table.has_changed(self.name, self.usual, self.before)


@dataclass(frozen=True, slots=True)
class FactsView:
    """One page of properties. ``shown``: the places of the columns, those that differ first."""

    summary: Mapping[str, Any]
    shown: list[str]
    rows: list[PropertyRow]
    matching: int
    odd_places: list[tuple[str, int]] = field(default_factory=list)
    healthy: Job | None = None

    @property
    def has_before(self) -> bool:
        """Whether the last healthy job states any of these properties, too."""
        return any(row.before for row in self.rows)

    @property
    def places_not_shown(self) -> int:
        return max(0, int(self.summary["places"]) - len(self.shown))


def facts_view(
    user: Any, job: Job, view: JobView, page: int = 1, *, words: str = "", is_odd_only: bool = False
) -> FactsView | None:
    """One page of the properties that match; None without facts. Two queries; reads the file of
    this job and of the healthy one.
    """
    table = _table(view.diagnosis)
    if table is None:
        return None
    matching = _matching(table, words, is_odd_only=is_odd_only)
    shown, odd_places = _places(table, words)
    healthy, before = _healthy_values(user, job)
    properties = _properties(matching)
    first = (max(page, 1) - 1) * PAGE_SIZE
    rows = list(_rows(table, properties.slice(first, PAGE_SIZE), shown, before))
    return FactsView(view.report["facts"], shown, rows, properties.height, odd_places, healthy)


def fact_rows(view: JobView, *, words: str, is_odd_only: bool) -> Iterator[Sequence[Any]] | None:
    """All matching facts in the order of :data:`CSV_COLUMNS`; None without facts."""
    table = _table(view.diagnosis)
    if table is None:
        return None
    columns = ("name", "part", "place", "value", "usual", "is_odd", "path", "line")
    return iter(_matching(table, words, is_odd_only=is_odd_only).select(columns).iter_rows())


def _table(diagnosis: Diagnosis | None) -> pl.DataFrame | None:
    """All facts of a diagnosis; None if it has none, or if their file is lost."""
    name = ((diagnosis.report if diagnosis else {}).get("facts") or {}).get("table")
    path = table_path(diagnosis, name) if diagnosis and name else None
    if path is None:
        return None
    import polars as pl  # noqa: PLC0415  # heavy

    return pl.read_parquet(path)


def _matching(table: pl.DataFrame, words: str, *, is_odd_only: bool) -> pl.DataFrame:
    """The facts that have all words in their place, part, property or value."""
    import polars as pl  # noqa: PLC0415  # heavy

    if is_odd_only:
        table = table.filter("is_odd")
    text = pl.concat_str("place", "part", "name", "value", separator=" ").str.to_lowercase()
    for word in words.lower().split():
        table = table.filter(text.str.contains(word, literal=True))
    return table


def _places(table: pl.DataFrame, words: str) -> tuple[list[str], list[tuple[str, int]]]:
    """The places to show, and those with values that differ, with their number, the most first. A
    place whose name is searched for comes before all others.
    """
    import polars as pl  # noqa: PLC0415  # heavy

    of_places = table.group_by("place").agg(odd=pl.col("is_odd").sum())
    counts = of_places.sort("odd", "place", descending=[True, False])
    odd_places = list(counts.filter(pl.col("odd") > 0).iter_rows())
    names = counts["place"].to_list()
    named = [name for name in names if name.lower() in words.lower().split()]
    shown = list(dict.fromkeys([*named, *names]))[:MAX_PLACES]
    return shown, odd_places[:MAX_PLACES]


def _properties(matching: pl.DataFrame) -> pl.DataFrame:
    """The properties of these facts, those that differ somewhere first."""
    import polars as pl  # noqa: PLC0415  # heavy

    found = matching.group_by("name", "part").agg(odd=pl.col("is_odd").any())
    return found.sort("odd", "name", "part", descending=[True, False, False])


def _rows(
    table: pl.DataFrame,
    properties: pl.DataFrame,
    shown: Sequence[str],
    before: Mapping[tuple[str, str], str],
) -> Iterator[PropertyRow]:
    import polars as pl  # noqa: PLC0415  # heavy

    facts = properties.join(table, on=["name", "part"], how="left", maintain_order="left_right")
    by_property = facts.group_by("name", "part", maintain_order=True)
    values, places = pl.col("value").n_unique(), pl.col("place").n_unique()
    counts = by_property.agg(pl.col("usual").first(), values=values, places=places)
    cells: dict[tuple[str, str, str], Cell] = {}
    columns = ("name", "part", "place", "value", "path", "line", "is_odd")
    of_shown = facts.filter(pl.col("place").is_in(shown)).select(columns)
    for name, part, place, *cell in of_shown.iter_rows():
        former = cells.get((name, part, place))
        if former is None or not former.is_odd:
            cells[name, part, place] = Cell(*cell)
    for name, part, usual, values_count, places_count in counts.iter_rows():
        row = [cells.get((name, part, place)) for place in shown]
        old_value = before.get((name, part), "")
        yield PropertyRow(name, part, usual, values_count, places_count, old_value, row)


def _healthy_values(user: Any, job: Job) -> tuple[Job | None, dict[tuple[str, str], str]]:
    """The last healthy job of the same cluster and family with facts, and its usual values. Two
    queries.
    """
    family = jobs_visible_to(user).filter(cluster=job.cluster_id, family=job.family)
    healthy = healthy_of(family.filter(created_at__lt=job.created_at))
    latest = list(healthy.order_by("-created_at").values_list("pk", flat=True)[:MAX_HEALTHY])
    newest = Diagnosis.objects.filter(job=OuterRef("job")).values("pk")[:1]
    diagnoses = Diagnosis.objects.filter(job__in=latest, pk=Subquery(newest))
    with_facts = diagnoses.filter(report__has_key="facts").select_related("job")
    found = with_facts.order_by("-job__created_at").first()
    table = _table(found)
    if found is None or table is None:
        return None, {}
    usual = table.filter(table["usual"] != "").unique(("name", "part"))
    rows = usual.select("name", "part", "usual").iter_rows()
    return found.job, {(name, part): value for name, part, value in rows}
