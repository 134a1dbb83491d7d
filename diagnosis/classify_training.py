"""Teach, measure and admit the learned part of classification. See :mod:`diagnosis.classify_model` for what is learned.

Training is deterministic: the same records give the same bytes. A model is admitted only if, on incidents it was not
taught by, rules and model together are right at least as often as the rules alone.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from diagnosis import taxonomy
from diagnosis.classify import Hint, classify
from diagnosis.classify_model import Level, Model, Record, digest, dumps, starter, words_of
from diagnosis.logs import signatures
from diagnosis.logs.signatures import SignatureSet, Strength
from diagnosis.model import Role

FOLDS = 5
#: Human-confirmed incidents count this many times as much as an example of a rule.
CONFIRMED_WEIGHT = 4.0
#: Decisions needed before raw confidences are mapped to observed shares.
CALIBRATION_RECORDS = 50
_STRENGTH = 6.0
_SMALL = 0.1


def starter_records() -> list[Record]:
    """What the engine knows by itself: the examples of its rules, and how the tree describes its leaves."""
    tree = taxonomy.load()
    found = [Record((leaf.title, leaf.explanation), leaf.id) for leaf in tree.leaves() if leaf.id != taxonomy.UNKNOWN]
    for rule in signatures.builtin():
        is_noise = rule.role in {Role.BENIGN, Role.ADVICE}
        category = taxonomy.NONE if is_noise else rule.category
        if category == taxonomy.UNKNOWN or (category == taxonomy.NONE and not is_noise):
            continue
        if not rule.codes:
            found.append(Record((*rule.examples, rule.title), category, (rule.id,) * (len(rule.examples) + 1)))
        rows = [row for row in rule.codes.values() if row.role is not Role.BENIGN and row.strength is not Strength.WEAK]
        found += [Record((f"Xid {row.code}: {row.title}",), row.category, (rule.id,)) for row in rows]
    return found


def train(confirmed: Sequence[Record], base: Sequence[Record] | None = None) -> Model:
    """A model of the confirmed incidents on top of the starter set (or of ``base``).

    Each template of a record is one sample with the record's category. O(samples × words × classes) a round of the
    solver.

    Raises:
        ValueError: fewer than two categories to tell apart.
    """
    base = starter_records() if base is None else base
    rows = [(text, record.category, 1.0) for record in base for text in record.templates]
    rows += [(text, record.category, CONFIRMED_WEIGHT) for record in confirmed for text in record.templates]
    if len({category for _, category, _ in rows}) < 2:
        raise ValueError("training needs incidents of at least two categories")
    # tiny matrices: threads of the linear algebra library cost forty times what they save on a busy machine
    with threadpool_limits(limits=1):
        return _trained(rows, confirmed, base)


def _trained(rows: Sequence[tuple[str, str, float]], confirmed: Sequence[Record], base: Sequence[Record]) -> Model:
    texts = [words_of(text) for text, _, _ in rows]
    idf = _idf(texts)
    matrix = _matrix(texts, idf)
    leaves = [category for _, category, _ in rows]
    weights = np.array([weight for _, _, weight in rows])
    domains = [leaf.partition(".")[0] for leaf in leaves]
    below = {}
    for domain in sorted(set(domains)):
        chosen = [i for i, name in enumerate(domains) if name == domain]
        if len({leaves[i] for i in chosen}) > 1:
            below[domain] = _level(matrix[chosen], [leaves[i] for i in chosen], weights[chosen], list(idf))
        elif leaves[chosen[0]] != domain:
            below[domain] = Level((leaves[chosen[0]],), (0.0,), {})
    return Model(
        idf=idf,
        top=_level(matrix, domains, weights, list(idf)),
        below=below,
        confirmed=len(confirmed),
        digest=digest([*base, *confirmed]),
        calibration=_calibration(confirmed),
    )


@dataclass(frozen=True, slots=True)
class Scores:
    """How classification did: shares of right verdicts in [0, 1], ``log_loss`` in nats of the leaf's probability."""

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
        hints = [
            Hint(text, rule, is_first=n == 0) for n, (text, rule) in enumerate(zip(record.templates, ids, strict=True))
        ]
        verdict = classify(hints, known, model)
        is_right = verdict.category.id == record.category
        leaf += is_right
        domain += verdict.category.root == record.category.partition(".")[0]
        loss -= math.log(max(1e-3, verdict.confidence if is_right else 1 - verdict.confidence))
    count = max(1, len(records))
    return Scores(len(records), leaf / count, domain / count, loss / count)


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a new model may be used, and the held-out figures that decided it."""

    model: Model
    is_admitted: bool
    with_model: Scores
    rules_alone: Scores
    reason: str


def admit(
    confirmed: Sequence[Record], rules: SignatureSet | None = None, base: Sequence[Record] | None = None
) -> Admission:
    """Train on all confirmed incidents, after asking held-out ones (five folds) whether that helps.

    With fewer incidents than folds nothing is trained and the starter model is returned, not admitted.
    """
    if len(confirmed) < FOLDS:
        scores = evaluate(confirmed, None, rules)
        reason = f"Only {len(confirmed)} incidents are confirmed; {FOLDS} are needed to hold some out."
        return Admission(starter(), False, scores, scores, reason)
    with_model, alone = [], []
    for learned, held in KFold(FOLDS, shuffle=True, random_state=0).split(np.zeros(len(confirmed))):
        part = train([confirmed[i] for i in learned], base)
        test = [confirmed[i] for i in held]
        with_model.append(evaluate(test, part, rules))
        alone.append(evaluate(test, None, rules))
    mine, theirs = _mean(with_model), _mean(alone)
    is_admitted = mine.leaf >= theirs.leaf and mine.domain >= theirs.domain
    verb = "is admitted" if is_admitted else "is not admitted"
    reason = f"The model {verb}: right on {mine.leaf:.1%} of held-out incidents, rules alone on {theirs.leaf:.1%}."
    return Admission(train(confirmed, base), is_admitted, mine, theirs, reason)


def _idf(texts: Sequence[Sequence[str]]) -> dict[str, float]:
    """Inverse document frequency of the words seen twice; a word of one text alone teaches that text by heart."""
    seen = Counter(word for text in texts for word in set(text))
    kept = sorted(word for word, count in seen.items() if count > 1 or " " not in word)
    return {word: round(math.log((1 + len(texts)) / (1 + seen[word])) + 1, 3) for word in kept}


def _matrix(texts: Sequence[Sequence[str]], idf: dict[str, float]) -> csr_matrix:
    place = {word: n for n, word in enumerate(idf)}
    rows, columns, values = [], [], []
    for row, text in enumerate(texts):
        counts = Counter(word for word in text if word in place)
        raw = {word: (1 + math.log(count)) * idf[word] for word, count in sorted(counts.items())}
        length = math.sqrt(sum(value * value for value in raw.values()))
        rows += [row] * len(raw)
        columns += [place[word] for word in raw]
        values += [value / length for value in raw.values()]
    return csr_matrix((values, (rows, columns)), shape=(len(texts), len(idf)))


def _level(matrix: csr_matrix, names: Sequence[str], weights: NDArray[np.float64], words: Sequence[str]) -> Level:
    classes = sorted(set(names))
    target = np.array([classes.index(name) for name in names])
    balance = len(target) / (len(classes) * np.bincount(target))
    sample = weights * np.sqrt(balance[target])
    solver = LogisticRegression(C=_STRENGTH, max_iter=100, tol=1e-3)
    temperature = _temperature(matrix, target, sample, solver, len(classes))
    solver.fit(matrix, target, sample_weight=sample)
    coef, bias = np.asarray(solver.coef_), np.asarray(solver.intercept_)
    if len(classes) == 2:
        coef, bias = np.vstack([-coef[0] / 2, coef[0] / 2]), np.array([-bias[0] / 2, bias[0] / 2])
    kept: dict[str, dict[int, float]] = {}
    for word, column in zip(words, coef.T, strict=True):
        row = {int(i): round(float(column[i]), 2) for i in np.flatnonzero(np.abs(column) >= _SMALL)}
        if row:
            kept[word] = row
    return Level(tuple(classes), tuple(round(float(b), 3) for b in bias), kept, temperature)


def _temperature(
    matrix: csr_matrix,
    target: NDArray[np.int64],
    sample: NDArray[np.float64],
    solver: LogisticRegression,
    classes: int,
) -> float:
    """The divisor of scores that makes out-of-fold probabilities most likely (Guo et al., ICML'17, section 4.2)."""
    scores = np.zeros((len(target), classes))
    is_scored = np.zeros(len(target), dtype=bool)
    for learned, held in KFold(min(FOLDS, len(target)), shuffle=True, random_state=0).split(target):
        if len(set(target[learned])) < classes or classes == 2:
            continue
        solver.fit(matrix[learned], target[learned], sample_weight=sample[learned])
        scores[held] = solver.decision_function(matrix[held])
        is_scored[held] = True
    if not is_scored.any():
        return 1.0
    scores, truth = scores[is_scored], target[is_scored]
    choices = np.geomspace(0.3, 3, 25)
    losses = []
    for choice in choices:
        scaled = scores / choice
        scaled = scaled - scaled.max(axis=1, keepdims=True)
        logs = scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))
        losses.append(-logs[np.arange(len(truth)), truth].mean())
    return round(float(choices[int(np.argmin(losses))]), 3)


def _calibration(records: Sequence[Record]) -> tuple[tuple[float, float], ...]:
    """Points of a rising curve from raw confidence to the share of right verdicts; empty if too few are known."""
    known = [
        (r.confidence, float(r.was_right)) for r in records if r.confidence is not None and r.was_right is not None
    ]
    if len(known) < CALIBRATION_RECORDS:
        return ()
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
