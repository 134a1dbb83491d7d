"""A colour of a state has one meaning, and a chart keeps its room free."""

import re
from pathlib import Path

from django.template import engines

from triage.charts import timeline_height
from triage.places import ROOT
from triage.templatetags.charts import chart
from triage.templatetags.desk import state_chip

MEANINGS = ("good", "bad", "attention", "person", "active")


def meaning_of(state):
    return re.search(r'class="chip ?(\w*)"', state_chip(state))[1]


def test_green_says_that_something_ended_well_and_nothing_else():
    states = ("succeeded", "confirmed", "actioned", "parsed", "running", "resolved")
    assert [meaning_of(state) for state in states] == ["good", "person", "person", "", "active", ""]


def test_what_a_person_has_said_has_one_colour_on_every_page():
    said = ("confirmed", "corrected", "inconclusive", "actioned")
    assert {meaning_of(state) for state in said} == {"person"}


def test_chips_name_meanings_and_the_tokens_give_each_its_colour():
    templates = "".join(path.read_text() for path in Path(ROOT / "templates").rglob("*.html"))
    named = set(re.findall(r'class="chip (\w+)', templates))
    assert named <= {*MEANINGS, "machine", "fold"}
    tokens = (ROOT / "static/css/tokens.css").read_text()
    assert all(f"--{name}: var(" in tokens and f"--{name}-soft: var(" in tokens for name in MEANINGS)


def test_a_chart_keeps_its_room_free_until_it_is_drawn():
    assert '<svg class="chart-room" width="1" height="260"' in chart(of="flow-steps", height=260)
    assert "chart-room" not in chart(url="/figure/")


def test_a_timeline_grows_with_its_nodes_up_to_a_limit():
    assert [timeline_height(nodes) for nodes in (None, 1, 8, 20, 5000)] == [240, 240, 360, 420, 640]


def test_the_words_of_a_chart_say_what_to_read_without_a_script():
    source = '{% load charts %}{% chart of="icicle" height=200 instead="the groups below" %}'
    shown = engines["django"].from_string(source).render()
    assert "without JavaScript, read the groups below." in shown
