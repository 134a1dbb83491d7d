"""The model learned from confirmed incidents: one linear model over the words of masked messages.

The features of a message are its words (names in CamelCase or with underscores are split), pairs of
neighbours and the beginnings of longer words, so that "timed out" helps with "timeout" and
``StoreTimeoutError`` with both. They are weighted by TF-IDF; each leaf of the category tree has a
linear score, and a softmax whose temperature was fitted on messages of rules that the scores had
not seen turns scores into probabilities. A domain's probability is the sum of its leaves'.

A model is plain JSON: it can be read, compared, rolled back, and loaded from anywhere without
executing anything.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from itertools import chain, pairwise

import msgspec
import numpy as np

from diagnosis import taxonomy

#: Version of the file; a model of another version is refused.
FORMAT = 2
_MASK = re.compile(r"<[A-Z_0-9]+>")
_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]{2,}|[A-Za-z]+\d*|\b\d{1,3}\b")
_HEADER = re.compile(r"\A(?:\s*\[[^\]]{0,80}\]:?)+")
#: Length of a word's beginning that is a feature of its own.
_STEM_CHARS = 5


class ModelError(ValueError):
    """A file is not a model of this version."""


class _Versioned(msgspec.Struct):
    """What is read first of a file."""

    format: int


class Record(msgspec.Struct, frozen=True):
    """One confirmed incident: its root templates (masked text) and the category a human confirmed.

    ``rules`` are the ids of the rules that matched those templates (None where none did).
    ``confidence`` and ``was_right`` are the machine's confidence in its verdict then, and whether
    the human agreed; both may be unknown.
    """

    templates: tuple[str, ...]
    category: str
    rules: tuple[str | None, ...] = ()
    confidence: float | None = None
    was_right: bool | None = None


class Level(msgspec.Struct, frozen=True):
    """A linear classifier: ``weights[feature] = {class index: weight}``.

    ``temperature`` divides the scores; ``doubt`` is the share of messages whose words mislead,
    divided equally among all classes.
    """

    classes: tuple[str, ...]
    bias: tuple[float, ...]
    weights: Mapping[str, Mapping[int, float]]
    temperature: float = 1.0
    doubt: float = 0.0

    def probabilities(self, words: Mapping[str, float]) -> dict[str, float]:
        """Probability of each class for a TF-IDF vector. O(features × classes)."""
        scores = list(self.bias)
        for word, value in words.items():
            for index, weight in self.weights.get(word, {}).items():
                scores[index] += value * weight
        scaled = [score / self.temperature for score in scores]
        top = max(scaled)
        raised = [math.exp(score - top) for score in scaled]
        total = sum(raised)
        sure, rest = (1 - self.doubt) / total, self.doubt / len(raised)
        return {name: value * sure + rest for name, value in zip(self.classes, raised, strict=True)}


class Model(msgspec.Struct, frozen=True):
    """Scores of all leaves, trained on ``confirmed`` incidents and the starter set."""

    idf: Mapping[str, float]
    leaves: Level
    confirmed: int = 0
    digest: str = ""
    calibration: tuple[tuple[float, float], ...] = msgspec.field(default=())

    @property
    def trust(self) -> float:
        """0 for the model shipped with the engine, 0.5 after fifty confirmed incidents, never 1."""
        return self.confirmed / (self.confirmed + 50)

    def predict(self, template: str) -> dict[str, float]:
        """Probability of each leaf for a masked message, highest first; empty: no known word."""
        vector = self._vector(template)
        if not vector:
            return {}
        found = self.leaves.probabilities(vector)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def coverage(self, template: str) -> float:
        """The share of a message's words that the training has seen, in [0, 1]; 0 without any."""
        words = words_of(template)
        return sum(word in self.idf for word in words) / len(words) if words else 0.0

    def calibrate(self, confidence: float) -> float:
        """A raw confidence, calibrated with past decisions; unchanged if there are too few."""
        known = self.calibration or ((0.0, 0.0), (1.0, 1.0))
        stated, right = zip(*known, strict=True)
        return float(np.interp(confidence, stated, right))

    def _vector(self, template: str) -> dict[str, float]:
        counts = Counter(feature for feature in features_of(template) if feature in self.idf)
        if not counts:
            return {}
        raw = {word: (1 + math.log(n)) * self.idf[word] for word, n in sorted(counts.items())}
        length = math.sqrt(sum(value * value for value in raw.values()))
        return {feature: value / length for feature, value in raw.items()}


def features_of(template: str) -> list[str]:
    """Words of a masked message, pairs of neighbours ("a b") and beginnings ("^timeo"), lower case,
    without masks, headers and long numbers. O(characters).
    """
    words = words_of(template)
    pairs = [f"{a} {b}" for a, b in pairwise(words)]
    return words + pairs + [f"^{word[:_STEM_CHARS]}" for word in words if len(word) >= _STEM_CHARS]


def words_of(template: str) -> list[str]:
    """The words of a masked message, lower case, without masks and long numbers. O(characters)."""
    text = _MASK.sub(" ", _HEADER.sub(" ", template))
    return [word.lower() for word in _WORD.findall(text)]


def dumps(model: Model) -> str:
    """JSON of a model, the same bytes for the same model."""
    content = {"format": FORMAT, **msgspec.to_builtins(model)}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def loads(text: str) -> Model:
    """Read a model back.

    Raises:
        ModelError: not JSON, another format, a part is missing, or a class that the tree lacks.
    """
    try:
        version = msgspec.json.decode(text, type=_Versioned).format
        if version != FORMAT:
            raise ModelError(f"the model has format {version}, this engine reads {FORMAT}")
        model = msgspec.json.decode(text, type=Model)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ModelError(f"the file is not a model: {error!r}") from error
    _check(model.leaves)
    tree = taxonomy.load()
    for name in model.leaves.classes:
        if name not in tree:
            raise ModelError(f"the model knows the category {name}, which the tree does not")
    return model


def digest(records: Iterable[Record]) -> str:
    """Identity of a training set, independent of the order of its records."""
    rows = sorted(json.dumps([record.templates, record.category]) for record in records)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


@cache
def starter() -> Model:
    """The model that ships with the engine, trained on the examples of its rules."""
    stored = resources.files("diagnosis").joinpath("classifier.json")
    return loads(stored.read_text(encoding="utf-8"))


def _check(level: Level) -> None:
    """Raises :class:`ModelError` if the parts of a level do not fit together."""
    classes = range(len(level.classes))
    if not set(chain.from_iterable(level.weights.values())).issubset(classes):
        raise ModelError("a weight belongs to no class")
    is_possible = level.temperature > 0 and 0 <= level.doubt < 1
    if len(level.bias) != len(classes) or not classes or not is_possible:
        raise ModelError("classes, bias, temperature and doubt of a level do not fit")
