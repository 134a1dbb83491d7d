"""The ladder of advice: its rules name what there is, and a broken one is refused."""

import re
from pathlib import Path

import pytest

from diagnosis import taxonomy
from diagnosis.advising import advice_facts, ladder


def test_every_rule_names_known_facts_checks_and_placeholders():
    rungs = ladder.load()
    assert len({r.id for r in rungs.rules}) == len(rungs.rules)
    for rule in rungs.rules:
        assert rule.targets in {"", *ladder.FACTS}
        assert set(re.findall(r"\{(\w+)\}", rule.why + rule.next)) <= set(ladder.FACTS)
        assert set(rule.checks) <= set(rungs.checks)
        assert rule.source
    assert set(advice_facts.TABLE) == set(ladder.FACTS)


def test_every_rule_of_the_ladder_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "advice.md").read_text(encoding="utf-8")
    for rule in ladder.load().rules:
        assert f"`{rule.id}`" in text, f"docs/advice.md lacks {rule.id}"


def test_a_broken_ladder_says_which_rule_is_wrong():
    with pytest.raises(ValueError, match=r"x\.y has unknown action"):
        ladder.parse('[[rule]]\nid="x.y"\ntitle="t"\naction="explode"\nwhen=[]\nwhy=""\nnext=""\nsource=""\n')
    with pytest.raises(ValueError, match=r"x\.y has unknown restart"):
        ladder.parse('[[rule]]\nid="x.y"\ntitle="t"\naction="evict"\nwhen=[]\nwhy=""\nnext=""\nsource=""\n')
    with pytest.raises(ValueError, match="one known fact"):
        ladder.parse(
            "[[rule]]\n"
            'id="a"\n'
            'title="t"\n'
            'action="evict"\n'
            'restart="stop"\n'
            'when=[{fact="nope", is=true, else="e"}]\n'
            'why=""\n'
            'next=""\n'
            'source=""\n'
        )


def test_every_leaf_that_rules_refer_to_is_in_the_taxonomy():
    known = {c.subcategory for c in taxonomy.load().leaves()}
    for name, leaves in ladder.load().leaves.items():
        assert leaves <= known, f"{name}: {sorted(leaves - known)}"
