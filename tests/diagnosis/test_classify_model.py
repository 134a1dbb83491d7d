"""The learned part: trained, written, read back, measured and admitted."""

import json

import pytest
from msgspec.structs import replace

from diagnosis import classify_training
from diagnosis.kinds.logs.classifying import classify_model
from diagnosis.kinds.logs.classifying.classify_model import Model, ModelError, Record
from diagnosis.kinds.logs.meaning import signatures

STRANGE = [
    Record((f"flux capacitor {word} drained on <HOST>",), "hardware.gpu.thermal")
    for word in ("alpha", "beta", "gamma", "delta", "main", "spare")
]
OTHER = [
    Record((f"ledger {word} has no owner, run refused",), "platform.scheduler.error")
    for word in ("one", "two", "three", "four", "five", "six")
]

SMALL = [Record(("disk broke",), "hardware.disk.io"), Record(("typo in option",), "user.config.invalid")] * 3


@pytest.fixture(scope="module")
def taught() -> Model:
    return classify_training.train([*STRANGE, *OTHER])


def test_it_learns_words_that_no_rule_knows(taught: Model) -> None:
    guesses = list(taught.predict("flux capacitor omega drained on <HOST>").items())
    assert guesses[0][0] == "hardware.gpu.thermal"
    assert guesses[0][1] > 0.5


def test_probabilities_of_all_leaves_sum_to_one(taught: Model) -> None:
    assert sum(taught.predict("ledger seven has no owner").values()) == pytest.approx(1)


def test_a_message_without_known_words_gets_no_guess(taught: Model) -> None:
    assert taught.predict("<NUM> <HEX> zzqx") == {}
    assert taught.predict("") == {}


def test_it_survives_writing_and_reading_byte_for_byte(taught: Model) -> None:
    text = classify_model.dumps(taught)
    again = classify_model.loads(text)
    assert classify_model.dumps(again) == text
    line = "ledger nine has no owner, run refused"
    assert again.predict(line) == taught.predict(line)


def test_the_same_incidents_teach_the_same_bytes() -> None:
    models = [classify_training.train(STRANGE[:2], SMALL) for _ in range(2)]
    assert classify_model.dumps(models[0]) == classify_model.dumps(models[1])


def test_the_order_of_incidents_does_not_change_their_digest() -> None:
    assert classify_model.digest(STRANGE) == classify_model.digest(STRANGE[::-1])
    assert classify_model.digest(STRANGE) != classify_model.digest(STRANGE[1:])


def test_trust_grows_with_confirmed_incidents_and_stays_below_one(taught: Model) -> None:
    assert classify_model.starter().trust == 0
    assert 0 < taught.trust < replace(taught, confirmed=10_000).trust < 1


def test_the_starter_model_is_the_one_that_the_rules_teach() -> None:
    """Regenerate it with ``python -m diagnosis.classify_training`` after a change of rules or categories."""
    assert classify_model.starter().digest == classify_model.digest(classify_training.starter_records())


def test_the_starter_model_knows_the_plain_words_of_a_fault() -> None:
    starter = classify_model.starter()
    for text, leaf in (
        ("GPU memory page retired because of double bit", "hardware.gpu.ecc"),
        ("failed mounting the remote volume", "platform.storage.outage"),
    ):
        assert next(iter(starter.predict(text))) == leaf


@pytest.mark.parametrize(
    ("text", "leaf"),
    [
        ("the parallel file store hangs on every client", "platform.storage.outage"),
        ("coordinator never answered the workers joining", "framework.rendezvous"),
        ("card no longer enumerated on the pci bus", "hardware.gpu.off_bus"),
        ("every inode of the scratch space has been used", "hardware.disk.full"),
    ],
)
def test_words_of_the_field_that_no_rule_matches_still_point_at_their_leaf(text: str, leaf: str) -> None:
    assert signatures.load().match_texts([text]) == [None]
    assert leaf in list(classify_model.starter().predict(text))[:2]


def test_beginnings_of_words_make_forms_of_a_word_similar() -> None:
    assert {"^timeo", "timeout"} <= set(classify_model.features_of("StoreTimeoutError"))
    shared = set(classify_model.features_of("evicted")) & set(classify_model.features_of("eviction"))
    assert shared == {"^evict"}


def test_a_pattern_teaches_its_synonyms() -> None:
    assert classify_training.phrases(r"(?i)link (?:is )?down|lost \w+ carrier|\d+") == ("link is down", "lost carrier")


def test_of_too_many_messages_the_heaviest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classify_training, "MAX_SAMPLES", 8)
    kept = classify_training.samples_of(OTHER, STRANGE)
    assert len(kept) == 8
    assert sum(sample.category == "hardware.gpu.thermal" for sample in kept) == len(STRANGE)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data.update(format=0), "format"),
        (lambda data: data.pop("idf"), "not a model"),
        (lambda data: data["leaves"].update(bias=[]), "do not fit"),
        (lambda data: data["leaves"].update(temperature=0), "do not fit"),
        (lambda data: data["leaves"].update(doubt=1), "do not fit"),
        (lambda data: data["leaves"]["weights"].update(word={"99": 1.0}), "belongs to no class"),
        (lambda data: data["leaves"]["classes"].__setitem__(0, "quantum"), "quantum"),
        (lambda data: data.update(idf=[1]), "not a model"),
    ],
)
def test_a_file_that_is_no_model_is_refused(taught: Model, change, complaint: str) -> None:  # type: ignore[no-untyped-def]
    data = json.loads(classify_model.dumps(taught))
    change(data)
    with pytest.raises(ModelError, match=complaint):
        classify_model.loads(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"format": 1}'])
def test_bytes_that_are_no_model_are_refused(text: str) -> None:
    with pytest.raises(ModelError):
        classify_model.loads(text)


def test_a_model_that_helps_on_held_out_incidents_is_admitted() -> None:
    admission = classify_training.admit([*STRANGE, *OTHER], base=SMALL)
    assert admission.is_admitted
    assert admission.with_model.leaf > admission.rules_alone.leaf
    assert admission.model.confirmed == 12
    assert "rules alone" in admission.reason


def test_too_few_incidents_admit_nothing() -> None:
    admission = classify_training.admit(STRANGE[:2])
    assert not admission.is_admitted
    assert "Only 2" in admission.reason


def test_past_decisions_become_a_rising_curve() -> None:
    rows = [replace(record, confidence=n / 60, was_right=n % 60 > 40) for n, record in enumerate(STRANGE * 10)]
    curve = classify_training._calibration(rows)
    assert curve
    assert [y for _, y in curve] == sorted(y for _, y in curve)
    assert curve[0][1] < 0.1 < 0.9 < curve[-1][1]
    assert classify_training._calibration(rows[:10]) == ()


def test_training_needs_two_categories() -> None:
    with pytest.raises(ValueError, match="two categories"):
        classify_training.train([], [STRANGE[0]])
