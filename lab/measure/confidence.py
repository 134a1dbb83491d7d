"""Fits the confidence of the classifier: `python -m lab.measure confidence [--write]`.

Reads the wordings that no rule was written from (parts B, C and E of ``measure.wordings``), asks the classifier about
each message alone, and fits a logistic regression from the features of its votes to whether it was right. Prints the
Brier score, the mean and the truth of each part with that part left out of the fit, and the same with the constants in
use. ``--write`` stores the fit on all parts in ``diagnosis/category_probability.json``. Verdicts of whole jobs:
``python -m lab.measure calibration``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import diagnosis
from diagnosis.kinds.logs.classifying import classify
from diagnosis.kinds.logs.classifying.classify_model import starter
from diagnosis.kinds.logs.meaning import signatures
from lab.measure import wordings

UNSEEN = ("B", "C", "E")
NAMES = ("score", "share", "rival")
#: Weights that may not be negative, and the one that may not be positive.
SIGNS = {"score": 1, "share": 1, "rival": -1}


def judged_messages() -> Iterator[tuple[str, Mapping[str, float], float, bool]]:
    """Part, features, confidence in use and whether the verdict was right, of each message with a cause."""
    seen: list[Mapping[str, float]] = []
    usual = classify.probability

    def spy(features: Mapping[str, float]) -> float:
        seen.append(features)
        return usual(features)

    rows = [row for row in wordings.load() if row.half in UNSEEN]
    classify.probability = spy
    try:
        for answer in wordings.answers(rows, signatures.load(), starter()):
            if answer.says_cause and seen and answer.role == "root":
                yield answer.wording.half, seen[-1], usual(seen[-1]), answer.fits(2)
            seen.clear()
    finally:
        classify.probability = usual


def fit(features: np.ndarray, right: np.ndarray) -> LogisticRegression:
    """A regression whose weights have the signs that their meaning demands: features with a wrong sign are left out."""
    kept = np.ones(len(NAMES), bool)
    while True:
        model = LogisticRegression(C=1.0).fit(features * kept, right)
        wrong = [n for n, name in enumerate(NAMES) if kept[n] and model.coef_[0][n] * SIGNS[name] < 0]
        if not wrong:
            return model
        kept[wrong] = False


def bound_confidence(found: np.ndarray, features: np.ndarray) -> np.ndarray:
    """The classifier's limit on a probability: neither of two equal candidates is more likely than not."""
    return np.minimum(found, 1 - (2 * features[:, NAMES.index("rival")]) ** classify.THRESHOLDS.equals / 2)


def main() -> None:
    """Print the figures of each part left out."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    rows = list(judged_messages())
    part = np.array([row[0] for row in rows])
    x = np.array([[row[1][name] for name in NAMES] for row in rows])
    used, y = bound_confidence(np.array([row[2] for row in rows]), x), np.array([row[3] for row in rows], float)
    for name in dict.fromkeys(part):
        out = part == name
        found = bound_confidence(fit(x[~out], y[~out]).predict_proba(x[out])[:, 1], x[out])
        print(
            f"{name}: {out.sum()} messages, Brier {np.mean((found - y[out]) ** 2):.3f} "
            f"(in use {np.mean((used[out] - y[out]) ** 2):.3f}), mean {found.mean():.3f}, truth {y[out].mean():.3f}"
        )
    model = fit(x, y)
    weights = {name: round(float(w), 4) for name, w in zip(NAMES, model.coef_[0], strict=True)}
    stored = {
        "made_by": "python -m lab.measure confidence --write",
        "fitted_on": f"{len(rows)} messages that no rule was written from",
        "intercept": round(float(model.intercept_[0]), 4),
        "weights": weights,
    }
    text = json.dumps(stored, indent=2) + "\n"
    print(text)
    if chosen.write:
        Path(diagnosis.__file__).with_name("category_probability.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
