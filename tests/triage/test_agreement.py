"""Every page, file and message says the same of an incident: condition, category, first suspect, headline."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from django.urls import reverse
from msgspec.structs import replace

from diagnosis import report, taxonomy
from diagnosis.conclusion.conclude import conclude
from diagnosis.conclusion.conclusion_records import report_of
from diagnosis.conclusion.invariants import violations
from diagnosis.evidence import FlowFinding, Suspect, decode
from diagnosis.kinds.stacks import finding_of
from diagnosis.pipeline import make_advice
from diagnosis.records.result import LogDiagnosis, Verdict
from diagnosis.report import Diagnosis
from tests.diagnosis.conclusion.test_conclude import FAILED, HEALTHY, JOB, steps
from tests.factories import make_attempt, make_job
from tests.pages import words_of
from tests.triage.report import sample
from triage.models import Incident
from triage.selectors.payloads import incident_payload
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

NODE = Suspect("node-3", "node", 0.8, ("logs",), ("its GPU fell off the bus",))
STACKS = {
    "reason": "Rank 5 waits for its data loader.",
    "headline": "Rank 5 waits for its data loader (node-2).",
    "suspect_ranks": [5],
    "suspect_nodes": ["node-2"],
    "evict_nodes": ["node-2"],
    "ranks": [{"rank": r, "node": f"node-{r // 2}", "path": "", "line": 1, "round": 0} for r in range(8)],
    "groups": [{"ranks": [5], "what": "waiting for its data loader", "frames": ["f"], "activity": "host"}],
    "suspects": [{"entity": "rank 5", "kind": "rank", "score": 0.8}],
}
STUCK = (
    Suspect("node-2", "node", 0.8, ("stacks",), ("rank 5 waits",), (5,)),
    Suspect("rank 5", "rank", 0.8, ("stacks",), ("rank 5 waits",), (5,)),
)
SLOW = steps([1.0] * 20 + [3.0] * 8 + [1.0] * 20)
OPEN_HANG = replace(FAILED, symptom="hang", events=(), lines=(), verdict=Verdict("unknown", "unknown", "unknown", 0.0))
OOM = Verdict("user.memory.cuda_oom", "user", "cuda_oom", 0.9)
#: Six kinds of incident: what the logs say, who is suspected, flows, stacks.
KINDS: dict[str, tuple[LogDiagnosis | None, tuple[Suspect, ...], dict[str, Any], dict[str, Any]]] = {
    "a broken machine": (FAILED, (NODE,), {}, {}),
    "an error of the code, nobody accused": (replace(FAILED, verdict=OOM), (), {}, {}),
    "a hang that the stacks explain": (OPEN_HANG, STUCK, {}, STACKS),
    "stacks alone": (None, STUCK, {}, STACKS),
    "a job that completed late": (HEALTHY, (msgspec.structs.replace(NODE, sources=("flows",)),), SLOW, {}),
    "a cancelled job": (replace(FAILED, outcome="cancelled", events=()), (), {}, {}),
}


def told(kind: str) -> dict[str, Any]:
    """The report that the engine makes of one kind."""
    logs, suspects, flows, stacks = KINDS[kind]
    of_flows, of_stacks = decode(flows, FlowFinding), finding_of(stacks)
    concluded = conclude(logs, of_flows, of_stacks, suspects, gpus=8)
    advice = make_advice(logs, of_flows, of_stacks, concluded, JOB)
    made = Diagnosis(
        engine="test",
        inputs=(),
        job=JOB,
        headline=concluded.sentence,
        logs=logs,
        suspects=suspects,
        conclusion=report_of(replace(concluded, advice=advice)),
        advice=advice,
    )
    shown = {k: v for k, v in stacks.items() if k != "suspects"}
    found: dict[str, Any] = report.to_json(made) | ({"stacks": shown} if shown else {})
    found["job"] |= {k: v for k, v in sample()["job"].items() if k not in ("node_names", "gpus_per_node")}
    assert violations(found) == []
    return found


@pytest.fixture(params=KINDS)
def pair(request: Any) -> tuple[dict[str, Any], Incident]:
    """The conclusion and the incident that is made of it."""
    attempt = make_attempt(make_job("llama"))
    found = told(request.param)
    diagnosis_store(attempt=attempt, revision=1, report=found)
    return found["conclusion"], attempt.incidents.get()


def test_all_pages_and_messages_say_what_the_conclusion_says(client, ada, pair):
    conclusion, incident = pair
    title = taxonomy.load().get(conclusion["id"]).title
    first = conclusion["fault"][0] if conclusion["fault"] else None
    name = "" if first is None else first["name"] if first["kind"] == "node" else f"rank {first['name']}"
    headline = " ".join(conclusion["sentence"].split())

    page = client.get(reverse("incident", args=[incident.pk])).content.decode()
    assert headline in words_of(page)
    assert words_of(page.partition('data-testid="condition">')[2].partition("</dd>")[0]) == conclusion["condition"]
    assert title in words_of(page.partition('data-testid="verdict"')[2].partition("</p>")[0])
    suspect = page.partition('data-testid="suspect-1"')[2].partition("</div>")[0]
    assert (f"<b>{name}</b>" in suspect or f">{name}</b>" in suspect) if name else "Nobody is accused" in page

    for address in (reverse("incidents"), reverse("queue")):
        row = client.get(address).content.decode().partition(f'id="incident-{incident.pk}"')[2].partition("</li>")[0]
        assert f'title="{headline}"' in " ".join(row.split())
        assert title in words_of(row)
        assert not name or f'mono" title="{name}' in row

    assert headline in words_of(client.get(reverse("job", args=[incident.job.slug])).content.decode())

    text = client.get(reverse("incident-markdown", args=[incident.pk])).content.decode()
    assert f"Condition: {conclusion['condition']}" in text
    assert title in text or conclusion["id"] == "unknown"
    if name:
        suspects = text.partition("### Suspects")[2]
        assert suspects.split()[:2] == ["1.", f"**{name.split()[0]}" + ("**" if " " not in name else "")]

    api = client.get(f"/api/v1/incidents/{incident.pk}/").json()
    message = json.loads(json.dumps(incident_payload(incident)))
    for row in (api, message):
        assert (row["condition"], row["category"], row["headline"]) == (
            conclusion["condition"],
            conclusion["id"],
            conclusion["sentence"],
        )
        assert row["accused"][:1] == ([name] if name else [])
    assert api["report"]["conclusion"] == conclusion
    assert api["advice"] == conclusion["advice"]
    assert message["advice"]["targets"] == (conclusion["advice"] or {}).get("targets", [])


def test_the_tab_of_the_stacks_begins_with_what_they_add_to_the_conclusion_which_is_said_once(client, ada):
    attempt = make_attempt(make_job("llama"))
    found = told("a hang that the stacks explain")
    diagnosis_store(attempt=attempt, revision=1, report=found)
    page = client.get(reverse("job-stacks", args=[attempt.job.slug])).content.decode()
    answer = words_of(page.partition('data-testid="tab-answer">')[2].partition("</section>")[0])
    assert words_of(page).count(" ".join(found["headline"].split())) == 1
    assert "By the stacks at fault: node-2 (rank 5) 80 %." in answer
    assert "Condition : hung" in answer
    assert "Suspect ranks 5 on node-2" in answer
