"""The table of all facts of a job: which place states which value, and which place differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from diagnosis import thresholds
from diagnosis.evidence import Fact, FactSummary, Measure, number_of
from diagnosis.facts import setups
from diagnosis.facts.majority import is_of_most
from diagnosis.facts.measure_tables import in_words

if TYPE_CHECKING:
    import polars as pl

THRESHOLDS: Final = thresholds.of("fact_table")
#: Facts of one job that are kept: 4,096 nodes with a report of a hundred lines each.
MAX_JOB_FACTS: Final = 400_000
FILE_NAME: Final = "facts.parquet"
#: Odd values that the report states in words, and characters of each.
MAX_EXAMPLES: Final = 3
MAX_EXAMPLE_CHARS: Final = 160
#: The end of the name of a property that nodes measure, step by step.
OF_STEPS: Final = " (median of its steps)"
#: A property is compared between the places that state it for the same part, such as a port.
_PROPERTY: Final = ("name", "part")
_COMPARED: Final = ("compared", "part")
#: The number at the beginning of a value; what follows is its unit.
_NUMBER: Final = r"^(\d{1,15}(?:\.\d{1,9})?)"


class FactRow(NamedTuple):
    """One row of the table. ``place``: the node, else the file; ``line`` from 1, 0: unknown."""

    place: str
    part: str
    name: str
    value: str
    path: str
    line: int


def summarise(
    stated: Sequence[tuple[str, Fact]], folder: Path | None, measures: Sequence[Measure] = ()
) -> FactSummary | None:
    """Write the table of all facts, each with its path, and of what nodes measure, into ``folder``;
    None for a job without any. O(facts log facts).
    """
    rows = stated[:MAX_JOB_FACTS]
    measured = measured_rows(measures)
    if not rows and not measured:
        return None
    left_out = len(stated) - len(rows)
    table = _with_measured(compare_places(_row(path, fact) for path, fact in rows), measured)
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
        examples=_examples(table),
    )


def _examples(table: pl.DataFrame) -> tuple[str, ...]:
    """The first odd values in words; those that are no numbers before counters and temperatures."""
    odd = table.filter("is_odd")
    is_number = odd["value"].str.contains(r"^[-+]?\d+(?:\.\d+)?(?:\s|$)")
    ordered = odd.with_columns(is_number=is_number).sort("is_number", maintain_order=True)
    return tuple(map(_odd_in_words, ordered.head(MAX_EXAMPLES).iter_rows(named=True)))


def _odd_in_words(row: Mapping[str, str]) -> str:
    what = " ".join(filter(None, (row["place"], row["part"], row["name"])))
    return f"{what}: {row['value']}; most: {row['usual']}"[:MAX_EXAMPLE_CHARS]


class MeasuredRow(NamedTuple):
    """A node's median of a quantity, the ``usual`` one of all nodes, and whether it is far."""

    stated: FactRow
    usual: str
    is_odd: bool


def measured_rows(measures: Sequence[Measure]) -> list[MeasuredRow]:
    """The medians of what the nodes measure. O(values)."""
    nodes: dict[tuple[str, str], dict[str, list[Measure]]] = defaultdict(lambda: defaultdict(list))
    for row in measures:
        if row.values and row.place.name and row.sense != "stage":
            nodes[row.name, row.unit][row.place.name].append(row)
    found: list[MeasuredRow] = []
    for (name, unit), of_node in nodes.items():
        middle = {node: median(median(row.values) for row in rows) for node, rows in of_node.items()}
        usual = median(middle.values())
        is_compared = len(middle) >= THRESHOLDS.min_places
        for node, rows in of_node.items():
            least, most = usual / THRESHOLDS.far, usual * THRESHOLDS.far
            is_far = not least <= middle[node] <= most
            value = in_words(middle[node], unit)
            stated = FactRow(node, "", f"{name}{OF_STEPS}", value, rows[0].path, rows[0].line)
            compared = in_words(usual, unit) if is_compared else ""
            found.append(MeasuredRow(stated, compared, is_compared and is_far))
    return found


def has_changed(name: str, now: str, before: str) -> bool:
    """Whether a property has another value than before. What is measured varies from job to job:
    it changed where it is as far from before as the page marks a node.
    """
    has_one_unit = now.partition(" ")[2] == before.partition(" ")[2]
    is_measured = name.endswith(OF_STEPS) and has_one_unit
    if not is_measured:
        return now != before
    low, high = sorted(number_of(value) or 0.0 for value in (now, before))
    return bool(high > low * THRESHOLDS.far)


def _with_measured(table: pl.DataFrame, rows: Sequence[MeasuredRow]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415  # heavy

    if not rows:
        return table
    names = (*FactRow._fields, "usual", "is_odd")
    flat = [(*row.stated, row.usual, row.is_odd) for row in rows]
    measured = pl.DataFrame(flat, schema=names, orient="row")
    return pl.concat([measured.select(table.columns).cast(table.schema), table])


def _row(path: str, fact: Fact) -> FactRow:
    return FactRow(fact.place.name or path, fact.part, fact.name, fact.value, path, fact.line)


def compare_places(rows: Iterable[FactRow]) -> pl.DataFrame:
    """The rows by property and place, each once, with the ``usual`` value of its property and
    whether it ``is_odd``: whether its place states another one.

    A value is usual if most of at least so many places state it (:mod:`diagnosis.facts.majority`, as for
    the verdict); without one nothing is odd: serial numbers and temperatures differ everywhere.
    A place that states several values is compared by all of them. Where no value is usual but most
    numbers are near the middle one, one that is far from it is odd.
    """
    import polars as pl  # noqa: PLC0415  # heavy

    columns = {name: pl.Int64 if name == "line" else pl.String for name in FactRow._fields}
    table = pl.DataFrame(list(rows), schema=columns, orient="row")
    table = table.unique(("place", "part", "name", "value"), keep="first", maintain_order=True)
    names = {name: setups.compared_name(name) for name in table["name"].unique()}
    named = table.with_columns(compared=pl.col("name").replace(names))
    several = pl.col("value").unique().sort().head(setups.LIMITS.values).str.join(", ")
    own = named.group_by(*_COMPARED, "place").agg(own=several)
    usual = _usual_values(own)
    most = own.join(usual, on=_COMPARED).with_columns(is_odd=pl.col("own") != pl.col("usual"))
    numbers = _far_numbers(own.join(usual, on=_COMPARED, how="anti"))
    judged = pl.concat([most.select(numbers.columns), numbers])
    joined = named.join(judged, on=(*_COMPARED, "place"), how="left", maintain_order="left")
    is_odd = pl.col("is_odd").fill_null(value=False)
    marked = joined.with_columns(pl.col("usual").fill_null(""), is_odd)
    return marked.drop("compared").sort("name", "part", "place", maintain_order=True)


def _usual_values(own: pl.DataFrame) -> pl.DataFrame:
    """The ``usual`` value of each property that has one, from what each place states."""
    import polars as pl  # noqa: PLC0415  # heavy

    places = own.group_by(_COMPARED).agg(places=pl.len())
    counts = own.group_by(*_COMPARED, usual="own").agg(votes=pl.len())
    shares = counts.join(places, on=_COMPARED)
    is_compared = pl.col("places") >= THRESHOLDS.min_places
    usual = shares.filter(is_compared & is_of_most(pl.col("votes"), pl.col("places")))
    return usual.select(*_COMPARED, "usual")


def _far_numbers(own: pl.DataFrame) -> pl.DataFrame:
    """Of each number of a unit, most near the middle one, whether it ``is_odd``."""
    import polars as pl  # noqa: PLC0415  # heavy

    group = (*_COMPARED, "unit")
    number = pl.col("own").str.extract(_NUMBER).cast(pl.Float64)
    unit = pl.col("own").str.replace(_NUMBER, "")
    numbers = own.with_columns(number=number, unit=unit).filter(pl.col("number") > 0)
    middle = pl.col("number").median().over(group)
    least, most = middle / THRESHOLDS.far_number, middle * THRESHOLDS.far_number
    is_near = pl.col("number").is_between(least, most)
    near = numbers.with_columns(middle=middle, is_near=is_near)
    votes, places = pl.col("is_near").sum().over(group), pl.len().over(group)
    far, few = places - votes, pl.max_horizontal(pl.lit(1), THRESHOLDS.few * places)
    is_few = (far > 0) & (far <= few)
    told = near.filter((places >= THRESHOLDS.min_places) & is_of_most(votes, places) & is_few)
    about = pl.format("about {}{}", pl.col("middle").round(3), "unit")
    return told.select(*_COMPARED, "place", usual=about, is_odd=~pl.col("is_near"))
