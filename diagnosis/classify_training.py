"""Train, measure and admit the learned part of classification (:mod:`diagnosis.kinds.logs.classifying.classify_model`).

The scores are those of ridge regression in its dual form: one linear system over the samples gives
the weights, and from the same inverse follow, without training again, the scores that each rule's
messages would get without that rule (leave-one-group-out; Rifkin and Lippert, "Notes on Regularized
Least Squares"). They fit the temperature and measure the model on unseen wording.

Training is deterministic: the same records give the same bytes. A model is admitted only if, on
incidents outside its training, rules and model together are right at least as often as the rules
alone.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from diagnosis import taxonomy
from diagnosis.kinds.logs.classifying.classify import Hint, classify
from diagnosis.kinds.logs.classifying.classify_model import Level, Model, Record, digest, dumps, features_of, starter
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import Signature, SignatureSet, Strength
from diagnosis.model import Role

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FOLDS = 5
#: Human-confirmed incidents count this many times as much as an example of a rule.
CONFIRMED_WEIGHT = 4.0
#: Decisions needed before raw confidences are mapped to observed shares.
MIN_CALIBRATION_RECORDS = 50
#: Maximum number of different messages in a training; of more, the heaviest are kept. The cost
#: grows with the cube.
MAX_SAMPLES = 3_000
_RIDGE = 0.6
#: Weights below this change no verdict; without them the file is a tenth of its size.
_MIN_WEIGHT = 0.05
_FLAGS = re.compile(r"\(\?[a-zA-Z-]+\)")
_GROUP = re.compile(r"\(\?(?:[a-zA-Z-]*:|P<\w+>)")
_CLASS = re.compile(r"\[[^\]]*\][*+?]?|\{[^}]*\}|\\.")

#: Area of the rules that join a subject and any verb of failing.
FAMILIES = "families"


def starter_records() -> list[Record]:
    """The built-in training set: examples and words of the rules, descriptions of the leaves."""
    tree = taxonomy.load()
    found = [
        Record((leaf.title, leaf.explanation, leaf.words), leaf.id)
        for leaf in tree.leaves()
        if leaf.words and leaf.id != taxonomy.UNKNOWN
    ]
    for rule in signatures.builtin():
        is_noise = rule.role in {Role.BENIGN, Role.ADVICE}
        category = taxonomy.NONE if is_noise else rule.category
        if category == taxonomy.UNKNOWN or (category == taxonomy.NONE and not is_noise):
            continue
        if len({code.category for code in rule.codes.values()}) > 1:
            rows = [(number, code) for number, code in rule.codes.items() if _may_teach(code)]
            kind = rule.id.rpartition(".")[2]
            found += [Record((f"{kind} {number}: {row.title}",), row.category, (rule.id,)) for number, row in rows]
        else:
            # all families have the same verbs: they would teach only the family's name
            words = () if rule.area == FAMILIES else phrases(rule.pattern)
            texts = (*rule.examples, rule.title, *words)
            found.append(Record(texts, category, (rule.id,) * len(texts)))
    return found


def _may_teach(code: Signature) -> bool:
    return code.role is not Role.BENIGN and code.strength is not Strength.WEAK


def phrases(pattern: str) -> tuple[str, ...]:
    """The words of each alternative of a rule's pattern, one text each: the synonyms that its examples do not contain.

    >>> phrases(r"(?i)link (?:is )?down|lost \\w+ carrier")
    ('link is down', 'lost carrier')
    """
    depth, parts = 0, [""]
    for char in _CLASS.sub("  ", _GROUP.sub("(", _FLAGS.sub("", pattern))):
        depth += (char == "(") - (char == ")")
        if char == "|" and depth <= 0:
            parts.append("")
        elif char not in "*+?":
            parts[-1] += " " if char in "()|.^$" else char
    texts = (" ".join(part.split()) for part in parts)
    return tuple(dict.fromkeys(text for text in texts if re.search(r"[A-Za-z]{3}", text)))


def train(confirmed: Sequence[Record], base: Sequence[Record] | None = None) -> Model:
    """A model of the confirmed incidents on top of the starter set (or of ``base``).

    Each template of a record is one sample with the record's category; equal samples are one with their weight.
    O(samples³ + samples × features), a second for the starter set.

    Raises:
        ValueError: fewer than two categories.
    """
    base = starter_records() if base is None else base
    samples = samples_of(base, confirmed)
    if len({sample.category for sample in samples}) < 2:
        raise ValueError("training needs incidents of at least two categories")
    # tiny matrices: threads of the linear algebra library cost forty times what they save on a busy machine
    with threadpool_limits(limits=1):
        idf, matrix = tf_idf([features_of(sample.text) for sample in samples])
        return Model(
            idf=idf,
            leaves=Ridge(samples, matrix).level(list(idf)),
            confirmed=len(confirmed),
            digest=digest([*base, *confirmed]),
            calibration=_calibration(confirmed),
        )


class Sample(msgspec.Struct, frozen=True):
    """One text to learn from; those of one group (a rule, an incident) are left out together."""

    text: str
    category: str
    group: str
    weight: float


def samples_of(base: Sequence[Record], confirmed: Sequence[Record]) -> list[Sample]:
    """Each different text and category once, with the weights of all its records."""
    found: dict[tuple[str, str], Sample] = {}
    for text, category, group, weight in (*_rows(base, "base", 1.0), *_rows(confirmed, "seen", CONFIRMED_WEIGHT)):
        same = found.get((text, category))
        found[text, category] = Sample(text, category, group, weight + (same.weight if same else 0.0))
    kept = list(found.values())
    if len(kept) > MAX_SAMPLES:
        places = sorted(range(len(kept)), key=lambda n: (-kept[n].weight, n))[:MAX_SAMPLES]
        kept = [kept[n] for n in sorted(places)]
    return kept


def _rows(records: Sequence[Record], kind: str, weight: float) -> Iterator[tuple[str, str, str, float]]:
    for number, record in enumerate(records):
        rule = next((name for name in record.rules if name), None)
        group = rule if rule and kind == "base" else f"{kind} {number}"
        yield from ((text, record.category, group, weight) for text in record.templates)


class Ridge:
    """Ridge regression from samples to one target a leaf, in its dual form."""

    def __init__(self, samples: Sequence[Sample], matrix: csr_matrix) -> None:
        self.classes = sorted({sample.category for sample in samples})
        self.groups = [sample.group for sample in samples]
        self.matrix = matrix
        truth = np.array([self.classes.index(sample.category) for sample in samples])
        balance = len(truth) / (len(self.classes) * np.bincount(truth))
        weights = np.array([sample.weight for sample in samples]) * np.sqrt(balance[truth])
        self.truth = truth
        self.target: NDArray[np.float64] = np.eye(len(self.classes))[truth]
        self.bias = weights @ self.target / weights.sum()
        kernel = (matrix @ matrix.T).toarray()
        self.inverse = np.linalg.inv(kernel + _RIDGE * np.diag(1 / weights))
        self.dual = self.inverse @ (self.target - self.bias)

    def left_out(self) -> NDArray[np.float64]:
        """Scores of each sample by a model without its group: its target less the group's part of the residual."""
        scores: NDArray[np.float64] = np.empty_like(self.target)
        places: dict[str, list[int]] = {}
        for row, group in enumerate(self.groups):
            places.setdefault(group, []).append(row)
        for rows in places.values():
            scores[rows] = self.target[rows] - np.linalg.solve(self.inverse[np.ix_(rows, rows)], self.dual[rows])
        return scores

    def softening(self) -> tuple[float, float]:
        """Temperature (Guo et al., ICML'17, 4.2) and doubt that make the left-out messages most likely."""
        scores = self.left_out()
        rows = np.arange(len(scores))
        best = (math.inf, 1.0, 0.0)
        for temperature in np.geomspace(0.03, 1, 30):
            right = softmax(scores / temperature)[rows, self.truth]
            for doubt in np.arange(0, 0.6, 0.05):
                loss = -np.log((1 - doubt) * right + doubt / len(self.classes) + 1e-9).mean()
                best = min(best, (float(loss), round(float(temperature), 3), round(float(doubt), 2)))
        return best[1], best[2]

    def level(self, features: Sequence[str]) -> Level:
        """The model as a table of weights; small ones are left out."""
        weights = np.asarray(self.matrix.T @ self.dual)
        kept: dict[str, dict[int, float]] = {}
        for feature, row in zip(features, weights, strict=True):
            if chosen := {int(n): round(float(row[n]), 2) for n in np.flatnonzero(np.abs(row) >= _MIN_WEIGHT)}:
                kept[feature] = chosen
        return Level(tuple(self.classes), tuple(round(float(b), 3) for b in self.bias), kept, *self.softening())


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the leaves, one row a sample, that sum to one."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


class Scores(msgspec.Struct, frozen=True):
    """Results of classification: shares of right verdicts in [0, 1], ``log_loss`` in nats of the leaf's probability."""

    incidents: int
    leaf: float
    domain: float
    log_loss: float


def evaluate(records: Sequence[Record], model: Model | None, rules: SignatureSet | None = None) -> Scores:
    """Classify each record from its templates and rules, with the model or (None) with rules alone."""
    known = rules or signatures.load()
    leaf = domain = 0
    loss = 0.0
    for record in records:
        ids = record.rules or tuple(known.match_texts(record.templates))
        hints = [Hint(text, rule) for text, rule in zip(record.templates, ids, strict=True)]
        verdict = classify(hints, known, model)
        is_right = verdict.category.id == record.category
        leaf += is_right
        domain += verdict.category.root == record.category.partition(".")[0]
        loss -= math.log(max(1e-3, verdict.confidence if is_right else 1 - verdict.confidence))
    count = max(1, len(records))
    return Scores(len(records), leaf / count, domain / count, loss / count)


class Admission(msgspec.Struct, frozen=True):
    """Whether a new model may be used, and the held-out figures that decided it."""

    model: Model
    is_admitted: bool
    with_model: Scores
    rules_alone: Scores
    reason: str


def admit(
    confirmed: Sequence[Record], rules: SignatureSet | None = None, base: Sequence[Record] | None = None
) -> Admission:
    """Train on all confirmed incidents, after testing on held-out ones (five folds) whether that helps.

    With fewer incidents than folds nothing is trained and the starter model is returned, not admitted.
    """
    if len(confirmed) < FOLDS:
        scores = evaluate(confirmed, None, rules)
        reason = f"Only {len(confirmed)} incidents are confirmed; {FOLDS} are needed to hold some out."
        return Admission(starter(), False, scores, scores, reason)
    from sklearn.model_selection import KFold  # heavy: takes a second, and few processes train

    with_model, rules_alone = [], []
    for learned, held_out in KFold(FOLDS, shuffle=True, random_state=0).split(np.zeros(len(confirmed))):
        part = train([confirmed[i] for i in learned], base)
        test = [confirmed[i] for i in held_out]
        with_model.append(evaluate(test, part, rules))
        rules_alone.append(evaluate(test, None, rules))
    with_mean, alone_mean = _mean(with_model), _mean(rules_alone)
    is_admitted = with_mean.leaf >= alone_mean.leaf and with_mean.domain >= alone_mean.domain
    verb = "is admitted" if is_admitted else "is not admitted"
    reason = (
        f"The model {verb}: right on {with_mean.leaf:.1%} of held-out incidents, rules alone on {alone_mean.leaf:.1%}."
    )
    return Admission(train(confirmed, base), is_admitted, with_mean, alone_mean, reason)


def tf_idf(texts: Sequence[Sequence[str]]) -> tuple[dict[str, float], csr_matrix]:
    """Inverse document frequencies, rounded as they are stored, and TF-IDF rows of unit length, one a text.

    Pairs and beginnings that occur once are dropped: they would only memorise their text.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # heavy, see above

    seen = Counter(chain.from_iterable(map(set, texts)))
    kept = sorted(feature for feature, count in seen.items() if count > 1 or feature.isalnum())
    vectoriser = TfidfVectorizer(analyzer=list, vocabulary=kept, sublinear_tf=True).fit(texts)
    vectoriser.idf_ = np.round(vectoriser.idf_, 3)
    return dict(zip(kept, map(float, vectoriser.idf_), strict=True)), vectoriser.transform(texts)


def _calibration(records: Sequence[Record]) -> tuple[tuple[float, float], ...]:
    """Points of a rising curve from raw confidence to the share of right verdicts; empty if too few are known."""
    known = [
        (r.confidence, float(r.was_right)) for r in records if r.confidence is not None and r.was_right is not None
    ]
    if len(known) < MIN_CALIBRATION_RECORDS:
        return ()
    from sklearn.isotonic import IsotonicRegression  # heavy, see above

    raw, right = zip(*known, strict=True)
    curve = IsotonicRegression(y_min=0.02, y_max=0.98, out_of_bounds="clip").fit(raw, right)
    points = zip(curve.X_thresholds_, curve.y_thresholds_, strict=True)
    return tuple((round(float(x), 4), round(float(y), 4)) for x, y in points)


def _mean(parts: Sequence[Scores]) -> Scores:
    total = sum(part.incidents for part in parts)
    share = [part.incidents / total for part in parts]
    return Scores(
        incidents=total,
        leaf=sum(part.leaf * s for part, s in zip(parts, share, strict=True)),
        domain=sum(part.domain * s for part, s in zip(parts, share, strict=True)),
        log_loss=sum(part.log_loss * s for part, s in zip(parts, share, strict=True)),
    )


def main() -> None:
    """Write the starter model: ``python -m diagnosis.classify_training > diagnosis/classifier.json``."""
    sys.stdout.write(dumps(train([])) + "\n")


if __name__ == "__main__":
    main()
