"""The table of all facts of a job: which place states which value, and which place differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from diagnosis import thresholds
from diagnosis.evidence import Fact, FactSummary

if TYPE_CHECKING:
    import polars as pl

THRESHOLDS: Final = thresholds.of("fact_table")
#: Facts of one job that are kept: 4,096 nodes with a report of a hundred lines each.
MAX_JOB_FACTS: Final = 400_000
FILE_NAME: Final = "facts.parquet"
#: A property is compared between the places that state it for the same part, such as a port.
_PROPERTY: Final = ("name", "part")


class FactRow(NamedTuple):
    """One row of the table. ``place``: the node, or the file where it names none; ``line`` is
    1-based, 0 if unknown.
    """

    place: str
    part: str
    name: str
    value: str
    path: str
    line: int


def summarise(stated: Sequence[tuple[str, Fact]], folder: Path | None) -> FactSummary | None:
    """Write the table of all facts, each with its path, into ``folder``; None for a job without
    facts. O(facts log facts).
    """
    rows = stated[:MAX_JOB_FACTS]
    if not rows:
        return None
    left_out = len(stated) - len(rows)
    table = compare_places(_row(path, fact) for path, fact in rows)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        table.write_parquet(folder / FILE_NAME)
    return FactSummary(
        facts=table.height,
        places=table["place"].n_unique(),
        properties=table.select(_PROPERTY).n_unique(),
        odd=int(table["is_odd"].sum()),
        left_out=left_out,
        table=FILE_NAME if folder is not None else "",
    )


def _row(path: str, fact: Fact) -> FactRow:
    return FactRow(fact.place.name or path, fact.part, fact.name, fact.value, path, fact.line)


def compare_places(rows: Iterable[FactRow]) -> pl.DataFrame:
    """The rows by property and place, each once, with the ``usual`` value of its property and
    whether it ``is_odd``.

    A value is usual if so large a share of at least so many places states it (thresholds
    ``fact_table``); without one nothing is odd: serial numbers and temperatures differ everywhere.
    """
    import polars as pl  # noqa: PLC0415  # heavy

    columns = {name: pl.Int64 if name == "line" else pl.String for name in FactRow._fields}
    table = pl.DataFrame(list(rows), schema=columns, orient="row")
    table = table.unique(("place", "part", "name", "value"), keep="first", maintain_order=True)
    usual = _usual_values(table)
    compared = table.join(usual, on=_PROPERTY, how="left", maintain_order="left").with_columns(
        pl.col("usual").fill_null(""), is_odd=pl.col("value") != pl.col("usual")
    )
    known = pl.col("usual") != ""
    marked = compared.with_columns(is_odd=known & pl.col("is_odd"))
    return marked.sort("name", "part", "place", maintain_order=True)


def _usual_values(table: pl.DataFrame) -> pl.DataFrame:
    """The ``usual`` value of each property that has one."""
    import polars as pl  # noqa: PLC0415  # heavy

    of_places = pl.col("place").n_unique()
    places = table.group_by(_PROPERTY).agg(places=of_places)
    counts = table.group_by(*_PROPERTY, "value").agg(places_with_it=of_places)
    ranked = counts.sort("places_with_it", "value", descending=[True, False])
    most = ranked.group_by(_PROPERTY).first()
    is_compared = pl.col("places") >= THRESHOLDS.min_places
    is_usual = pl.col("places_with_it") >= THRESHOLDS.usual_share * pl.col("places")
    usual = most.join(places, on=_PROPERTY).filter(is_compared & is_usual)
    return usual.select(*_PROPERTY, usual="value")
