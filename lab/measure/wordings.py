"""Accuracy on messages that no rule was written from: `python -m lab.measure wordings [--learned] [--show]`.

Reads ``lab/exams/wordings/wordings.tsv``: families of messages with the roles and the leaves that are right for
each. The list is split in two by the hash of the message: half A may be read to write rules, half B is only measured.
``wordings_late.tsv`` (C) was collected from public trackers after the rules were written. ``wordings_vendors.tsv``
states each leaf in the words of three vendors or programs and is split in the same way (D may be read, E is only
measured). Category is the first part of a leaf's pair, subcategory the whole pair, both of the verdict on a failure
that shows this one message; messages without a rule are classified by the learned model alone. ``--learned`` tests only
the learned model: on the list, on the examples of each rule with that rule left out of its training, and how often it
is right at each stated probability.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from threadpoolctl import threadpool_limits

from diagnosis import taxonomy
from diagnosis.classify_training import Ridge, samples_of, softmax, starter_records, tf_idf
from diagnosis.kinds.logs.classifying.classify import Hint, classify
from diagnosis.kinds.logs.classifying.classify_model import Model, Record, features_of, starter
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import SignatureSet
from diagnosis.kinds.logs.text.mask import mask
from diagnosis.model import Role

DATA = Path(__file__).resolve().parents[1] / "exams" / "wordings"
#: The lists, and the parts that the hash of a message cuts each into.
LISTS = {"wordings.tsv": "AB", "wordings_late.tsv": "CC", "wordings_vendors.tsv": "DE"}
#: Roles that do not show the cause: their category is not compared.
SILENT = {"benign", "advice", "-"}


@dataclass(frozen=True, slots=True)
class Wording:
    """One message, the roles that are right for it ("-": no rule at all) and its leaves."""

    family: str
    roles: frozenset[str]
    leaves: tuple[str, ...]
    message: str
    halves: str = "AB"

    @property
    def half(self) -> str:
        """The part of its list that a message belongs to, by its text alone."""
        return self.halves[hashlib.sha256(self.message.encode()).digest()[0] & 1]


def load(folder: Path = DATA) -> list[Wording]:
    """All wordings of the three lists."""
    found = []
    for name, halves in LISTS.items():
        with (folder / name).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                roles, leaves = frozenset(row["role"].split("|")), tuple(row["leaf"].split("|"))
                found.append(Wording(row["family"], roles, leaves, row["message"], halves))
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """The engine's answer for one wording."""

    wording: Wording
    rule: str
    role: str
    category: str

    @property
    def is_role(self) -> bool:
        """Whether the role is one of the right ones."""
        return self.role in self.wording.roles

    @property
    def says_cause(self) -> bool:
        """Whether its category counts."""
        return not self.wording.roles & SILENT and taxonomy.UNKNOWN not in self.wording.leaves

    def fits(self, parts: int) -> bool:
        """Whether the first ``parts`` (1 or 2) parts of the pair are right."""
        tree = taxonomy.load()
        mine = tree.get(self.category)
        pairs = [(mine.category, mine.subcategory)[:parts]]
        return any((leaf.category, leaf.subcategory)[:parts] in pairs for leaf in map(tree.get, self.wording.leaves))


def answers(rows: list[Wording], rules: SignatureSet, model: Model | None) -> Iterator[Answer]:
    """The engine's answer for each row."""
    texts = [row.message for row in rows]
    masked = pl.select(text=mask(pl.lit(pl.Series(texts)))).to_series().to_list()
    for row, text, rule_id in zip(rows, masked, rules.match_texts(texts), strict=True):
        rule = rules.rule(rule_id) if rule_id else None
        role = rule.role if rule else Role.ROOT
        verdict = classify([Hint(text, rule_id, role)], rules, model)
        yield Answer(row, rule_id or "", rule.role.value if rule else "-", verdict.category.id)


def figures(rows: list[Answer]) -> str:
    """One line of shares."""
    causes = [row for row in rows if row.says_cause]
    unruled = [row for row in causes if not row.rule]
    shares = {
        "known": sum(bool(row.rule) for row in rows) / len(rows),
        "role": sum(row.is_role for row in rows) / len(rows),
        "category": sum(row.fits(1) for row in causes) / len(causes),
        "subcategory": sum(row.fits(2) for row in causes) / len(causes),
    }
    line = " ".join(f"{name} {share:.3f}" for name, share in shares.items())
    learned = sum(row.fits(2) for row in unruled)
    return f"{len(rows):4d} messages: {line}; without a rule {len(unruled)}, subcategory learned {learned}"


@dataclass(frozen=True, slots=True)
class HeldOutGuess:
    """A message with the model's answer without the message's own rule (or incident)."""

    text: str
    category: str
    guess: str
    probability: float


def held_out_guesses(base: Sequence[Record] | None = None) -> list[HeldOutGuess]:
    """The answers of a model of ``base`` for each of its messages, with their own rule left out of the training."""
    samples = samples_of(starter_records() if base is None else base, [])
    with threadpool_limits(limits=1):
        ridge = Ridge(samples, tf_idf([features_of(sample.text) for sample in samples])[1])
        temperature, doubt = ridge.softening()
        shares = (1 - doubt) * softmax(ridge.left_out() / temperature) + doubt / len(ridge.classes)
    best = shares.argmax(axis=1)
    return [
        HeldOutGuess(sample.text, sample.category, ridge.classes[leaf], float(share[leaf]))
        for sample, leaf, share in zip(samples, best, shares, strict=True)
    ]


def learned(rows: list[Wording]) -> None:
    """Print how well the model does without rules, and a reliability table."""
    model, tree = starter(), taxonomy.load()
    masked = pl.select(text=mask(pl.lit(pl.Series([row.message for row in rows])))).to_series().to_list()
    for half in sorted({row.half for row in rows}):
        found = [
            Answer(row, "", "", next(iter(model.predict(text)), taxonomy.UNKNOWN))
            for row, text in zip(rows, masked, strict=True)
            if row.half == half
        ]
        causes = [row for row in found if row.says_cause]
        right = [sum(row.fits(parts) for row in causes) / len(causes) for parts in (1, 2)]
        print(f"{half} model alone: {len(causes)} messages: category {right[0]:.3f} subcategory {right[1]:.3f}")
    own = {text for rule in signatures.builtin() for text in rule.examples if rule.role.value not in SILENT}
    judged = []
    for row in held_out_guesses():
        if row.text in own:
            answer, truth = tree.get(row.guess), tree.get(row.category)
            is_category = answer.category == truth.category
            judged.append((row.probability, is_category, is_category and answer.subcategory == truth.subcategory))
    count = len(judged)
    shares = [sum(row[n] for row in judged) / count for n in (1, 2)]
    print(f"rule left out: {count} examples: category {shares[0]:.3f} subcategory {shares[1]:.3f}")
    print("probability given / right subcategory / examples")
    for low in range(0, 10, 2):
        part = [row for row in judged if low <= min(9.9, row[0] * 10) < low + 2]
        if part:
            mean = sum(row[0] for row in part) / len(part)
            print(f"    {mean:.2f} / {sum(row[2] for row in part) / len(part):.2f} / {len(part)}")


def main() -> None:
    """Both halves; with ``--show`` the misses, by family."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--show", action="store_true", help="print every miss of the halves asked for")
    options.add_argument("--half", choices=sorted(set("".join(LISTS.values()))), help="one part only")
    options.add_argument("--learned", action="store_true", help="ask the learned model alone")
    options.add_argument("--families", action="store_true", help="count the misses of each family")
    chosen = options.parse_args()
    rows = [row for row in load() if chosen.half in {None, row.half}]
    if chosen.learned:
        learned(rows)
        return
    found = list(answers(rows, signatures.load(), starter()))
    for half in sorted({row.half for row in rows}):
        print(half, figures([row for row in found if row.wording.half == half]))
    missed = [row for row in found if not row.is_role or (row.says_cause and not row.fits(2))]
    if chosen.families:
        sizes = Counter(row.family for row in rows)
        counts = Counter(row.wording.family for row in missed)
        print(" ".join(f"{family} {counts[family]}/{size}" for family, size in sizes.items() if counts[family]))
    for row in missed if chosen.show else ():
        wanted = f"{'|'.join(sorted(row.wording.roles))} {'|'.join(row.wording.leaves)}"
        print(
            f"{row.wording.family:10} {wanted} <- {row.role} {row.category} ({row.rule}) | {row.wording.message[:130]}"
        )
