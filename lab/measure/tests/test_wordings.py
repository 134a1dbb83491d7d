"""The lists of wordings that no rule was written from are valid, and the figures reach the documented ones."""

import pytest

from diagnosis import classify_training, taxonomy
from diagnosis.kinds.logs.classifying.classify_model import Record, starter
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.model import Role
from lab.measure import wordings
from lab.measure.wordings import HeldOutGuess, held_out_guesses

ROWS = wordings.load()


@pytest.fixture(scope="module")
def answers() -> list[wordings.Answer]:
    return list(wordings.answers(ROWS, signatures.load(), starter()))


def test_each_wording_names_known_roles_and_leaves() -> None:
    roles = {role.value for role in Role} | {"-"}
    for row in ROWS:
        assert row.roles <= roles, row
        assert all(taxonomy.load().get(leaf).id == leaf for leaf in row.leaves), row


def test_messages_are_there_once_and_are_single_lines() -> None:
    messages = [row.message for row in ROWS]
    assert len(messages) == len(set(messages)) > 700
    assert all(message == message.strip() for message in messages)


@pytest.mark.parametrize(
    ("half", "role", "subcategory"),
    [("A", 0.95, 0.95), ("B", 0.92, 0.88), ("C", 0.9, 0.88), ("D", 0.92, 0.92), ("E", 0.72, 0.82)],
)
def test_wordings_are_reported_as_well_as_documented(
    answers: list[wordings.Answer], half: str, role: float, subcategory: float
) -> None:
    rows = [row for row in answers if row.wording.half == half]
    causes = [row for row in rows if row.says_cause]
    assert sum(row.is_role for row in rows) / len(rows) >= role
    assert sum(row.fits(2) for row in causes) / len(causes) >= subcategory


def test_no_harmless_wording_is_taken_for_a_cause(answers: list[wordings.Answer]) -> None:
    harmless = [row for row in answers if row.wording.roles & {"benign", "-"} and "root" not in row.wording.roles]
    assert [row.wording.message for row in harmless if row.role == "root"] == []


def test_the_figures_name_what_they_count(answers: list[wordings.Answer]) -> None:
    line = wordings.figures(answers)
    assert line.lstrip().startswith(str(len(ROWS)))
    assert "subcategory" in line


@pytest.fixture(scope="module")
def left_out() -> list[HeldOutGuess]:
    return held_out_guesses()


def test_leaving_a_rule_out_gives_what_training_without_it_gives() -> None:
    words = ("alpha", "beta", "gamma")
    drained = [Record((f"flux capacitor {word} drained",), "hardware.gpu.thermal") for word in words]
    refused = [Record((f"ledger {word} has no owner",), "platform.scheduler.error") for word in words]
    base = [*drained, *refused, Record(("flux ledger",), "hardware.gpu.thermal", ("odd.rule",))]
    left = next(row for row in held_out_guesses(base) if row.text == "flux ledger")
    without = classify_training.train([], base[:-1])
    assert left.guess == next(iter(without.predict("flux ledger")))


def test_most_messages_of_a_rule_left_out_are_still_reported_by_their_category(
    left_out: list[HeldOutGuess],
) -> None:
    tree = taxonomy.load()
    rows = [row for row in left_out if row.category != "none"]
    right = [tree.get(row.guess).category == tree.get(row.category).category for row in rows]
    assert sum(right) / len(right) > 0.6


def test_probabilities_of_unseen_wording_mean_what_they_say(left_out: list[HeldOutGuess]) -> None:
    rows = [row for row in left_out if row.probability >= 0.6]
    assert len(rows) > 50
    assert sum(row.guess == row.category for row in rows) / len(rows) > 0.55
