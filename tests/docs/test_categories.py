"""Every category that a verdict can name has its line in docs/categories.md."""

import re
from pathlib import Path

from diagnosis import taxonomy

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_category_is_documented() -> None:
    text = (ROOT / "docs" / "categories.md").read_text()
    ids = [category.id for category in taxonomy.load() if category.is_leaf]
    assert len(ids) > 30
    words = set(re.findall(r"[\w.]*\w", text))
    assert [name for name in ids if name not in words] == []
