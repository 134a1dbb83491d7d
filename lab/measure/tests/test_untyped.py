"""Each dictionary without types that is left in the engine has a reason."""

from __future__ import annotations

import tomllib
from collections import Counter

from lab.measure.untyped import REASONS, ROOT, is_untyped, nodes_of

MAX_UNTYPED = 40


def test_each_untyped_dictionary_of_the_engine_has_its_reason() -> None:
    found: Counter[str] = Counter()
    for path in sorted((ROOT / "diagnosis").rglob("*.py")):
        if "[str, " in path.read_text(encoding="utf-8"):
            found[path.relative_to(ROOT).as_posix()] = sum(map(is_untyped, nodes_of(path)))
    stated = {name: count for rows in tomllib.loads(REASONS.read_text()).values() for name, count in rows.items()}
    assert +found == stated
    assert found.total() < MAX_UNTYPED
