"""What confirmed incidents teach: a linear model over the words of masked messages, one level of the category tree at
a time.

The first level tells the domain (hardware, user …), the second the leaf within it; the probability of a leaf is their
product, after FaultProfIT's use of the hierarchy (ICSE-SEIP'24, section 3). Words are weighted by TF-IDF, each level
is a multinomial logistic regression, and its temperature is fitted out of fold so that probabilities mean what they
say.

A model is plain JSON: it can be read, compared, rolled back, and loaded from anywhere without running anything.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

from diagnosis import taxonomy

#: Version of the file; a model of another version is refused.
FORMAT = 1
_MASK = re.compile(r"<[A-Z_0-9]+>")
_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]{2,}|[A-Za-z]+\d*|\b\d{1,3}\b")
_HEADER = re.compile(r"\A(?:\s*\[[^\]]{0,80}\]:?)+")


class ModelError(ValueError):
    """A file is not a model of this version."""


@dataclass(frozen=True, slots=True)
class Record:
    """One confirmed incident: its root templates (masked text) and the category a human confirmed.

    ``rules`` are the ids of the rules that matched those templates (None where none did). ``confidence`` and
    ``was_right`` say how sure the machine was of its own verdict then, and whether the human agreed; both may be
    unknown.
    """

    templates: tuple[str, ...]
    category: str
    rules: tuple[str | None, ...] = ()
    confidence: float | None = None
    was_right: bool | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """One linear classifier: ``weights[word] = {class index: weight}``."""

    classes: tuple[str, ...]
    bias: tuple[float, ...]
    weights: Mapping[str, Mapping[int, float]]
    temperature: float = 1.0

    def probabilities(self, words: Mapping[str, float]) -> dict[str, float]:
        """Probability of each class for a TF-IDF vector. O(words × classes)."""
        scores = list(self.bias)
        for word, value in words.items():
            for index, weight in self.weights.get(word, {}).items():
                scores[index] += value * weight
        scaled = [score / self.temperature for score in scores]
        top = max(scaled)
        raised = [math.exp(score - top) for score in scaled]
        total = sum(raised)
        return {name: value / total for name, value in zip(self.classes, raised, strict=True)}


@dataclass(frozen=True, slots=True)
class Model:
    """A trained hierarchy, taught by ``confirmed`` incidents besides the starter set."""

    idf: Mapping[str, float]
    top: Level
    below: Mapping[str, Level]
    confirmed: int = 0
    digest: str = ""
    calibration: tuple[tuple[float, float], ...] = field(default=())

    @property
    def trust(self) -> float:
        """0 for the model shipped with the engine, 0.5 after fifty confirmed incidents, never 1."""
        return self.confirmed / (self.confirmed + 50)

    def predict(self, template: str) -> dict[str, float]:
        """Probability of each leaf for one masked message, most probable first; empty if no word of it is known."""
        vector = self._vector(template)
        if not vector:
            return {}
        found: dict[str, float] = {}
        for domain, share in self.top.probabilities(vector).items():
            level = self.below.get(domain)
            leaves = level.probabilities(vector) if level else {domain: 1.0}
            found.update({leaf: share * part for leaf, part in leaves.items()})
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def calibrated(self, confidence: float) -> float:
        """What a raw confidence turned out to mean over past decisions; unchanged before enough were made."""
        points = self.calibration
        if not points:
            return confidence
        for (x0, y0), (x1, y1) in pairwise(points):
            if x0 <= confidence <= x1:
                return y0 if x1 == x0 else y0 + (y1 - y0) * (confidence - x0) / (x1 - x0)
        return points[0][1] if confidence < points[0][0] else points[-1][1]

    def _vector(self, template: str) -> dict[str, float]:
        counts = Counter(word for word in words_of(template) if word in self.idf)
        raw = {word: (1 + math.log(count)) * self.idf[word] for word, count in counts.items()}
        length = math.sqrt(sum(value * value for value in raw.values()))
        return {word: value / length for word, value in raw.items()} if length else {}


def words_of(template: str) -> list[str]:
    """Words and pairs of neighbours of a masked message, lower case, without masks, headers and long numbers."""
    text = _MASK.sub(" ", _HEADER.sub(" ", template))
    words = [word.lower() for word in _WORD.findall(text)]
    return words + [f"{a} {b}" for a, b in pairwise(words)]


def dumps(model: Model) -> str:
    """JSON of a model, the same bytes for the same model."""
    return json.dumps(
        {
            "format": FORMAT,
            "confirmed": model.confirmed,
            "digest": model.digest,
            "calibration": [list(point) for point in model.calibration],
            "idf": dict(sorted(model.idf.items())),
            "top": _level_out(model.top),
            "below": {name: _level_out(level) for name, level in sorted(model.below.items())},
        },
        separators=(",", ":"),
        ensure_ascii=False,
    )


def loads(text: str) -> Model:
    """Read a model back.

    Raises:
        ModelError: not JSON, another format, a part is missing, or a class is not in the category tree.
    """
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise ModelError(f"the model has format {data['format']}, this engine reads {FORMAT}")
        model = Model(
            idf={str(word): float(value) for word, value in data["idf"].items()},
            top=_level_in(data["top"]),
            below={str(name): _level_in(level) for name, level in data["below"].items()},
            confirmed=int(data["confirmed"]),
            digest=str(data["digest"]),
            calibration=tuple((float(x), float(y)) for x, y in data["calibration"]),
        )
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise error if isinstance(error, ModelError) else ModelError(f"the file is not a model: {error!r}") from error
    tree = taxonomy.load()
    for name in (*model.top.classes, *(leaf for level in model.below.values() for leaf in level.classes)):
        if name not in tree:
            raise ModelError(f"the model knows the category {name}, which the tree does not")
    return model


def digest(records: Iterable[Record]) -> str:
    """Identity of a training set, whatever the order of its records."""
    rows = sorted(json.dumps([record.templates, record.category]) for record in records)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


@cache
def starter() -> Model:
    """The model that ships with the engine, taught by the examples of its own rules."""
    return loads(resources.files("diagnosis").joinpath("classifier.json").read_text(encoding="utf-8"))


def _level_out(level: Level) -> dict[str, Any]:
    return {
        "classes": level.classes,
        "bias": level.bias,
        "temperature": level.temperature,
        "weights": {word: {str(i): w for i, w in sorted(row.items())} for word, row in sorted(level.weights.items())},
    }


def _level_in(data: Mapping[str, Any]) -> Level:
    classes: Sequence[str] = tuple(str(name) for name in data["classes"])
    weights = {str(word): {int(i): float(w) for i, w in row.items()} for word, row in data["weights"].items()}
    if any(index >= len(classes) or index < 0 for row in weights.values() for index in row):
        raise ModelError("a weight belongs to no class")
    if len(data["bias"]) != len(classes) or not classes or float(data["temperature"]) <= 0:
        raise ModelError("classes, bias and temperature of a level do not fit")
    return Level(tuple(classes), tuple(float(b) for b in data["bias"]), weights, float(data["temperature"]))
