"""Fills the database with the year of a large fleet: jobs, incidents, findings, suspects, reviews. Seeded."""

from __future__ import annotations

import random
import re
from datetime import datetime, timedelta
from functools import cache
from itertools import batched
from typing import Any

from diagnosis import taxonomy
from ingest.models import Attempt, Cluster, Job, Node, Team
from triage.domain.report_facts import week_of
from triage.lanes import cut_stages, fold
from triage.models import Activity, Decision, Diagnosis, Finding, Incident, Suspect

_State = Incident.State
_STATES = (
    (_State.AWAITING_REVIEW, 8),
    (_State.CONFIRMED, 40),
    (_State.CORRECTED, 8),
    (_State.REJECTED, 4),
    (_State.ACTIONED, 10),
    (_State.RESOLVED, 30),
)
_STAGES = (
    "launch",
    "rendezvous",
    "model_build",
    "checkpoint_load",
    "training",
    "training",
    "training",
    "checkpoint_save",
)
_SYMPTOMS = ("crash", "crash", "crash", "hang", "slow", "launch_failure")
_FRAMEWORKS = ("megatron", "nemo", "deepspeed", "torchtitan", "hf")
_MODELS = ("llama-8b", "llama-70b", "moe-200b", "vit-2b", "dense-400b")

#: period in which diagnoses have their whole report
WHOLE_DAYS = 8


def fill(*, incidents: int, jobs: int, findings_each: int, user: Any, now: datetime, seed: int = 7) -> None:
    """Makes the rows in batches; ``findings_each`` times ``incidents`` findings in all."""
    rng = random.Random(seed)
    clusters = [Cluster.objects.get_or_create(slug=slug)[0] for slug in ("default", "north", "south")]
    teams = [Team.objects.get_or_create(slug=slug)[0] for slug in ("pretraining", "multimodal", "post-training")]
    nodes = Node.objects.bulk_create(
        Node(cluster=c, name=f"gpu-{c.slug}-{n:04d}") for c in clusters for n in range(1024)
    )
    by_cluster = {c.pk: {node.name: node for node in nodes if node.cluster_id == c.pk} for c in clusters}
    made_jobs = Job.objects.bulk_create(
        Job(
            slug=f"job-{n:05d}",
            name=f"{rng.choice(_MODELS)} run {n}",
            family=(family := rng.choice(_MODELS)),
            framework=rng.choice(_FRAMEWORKS),
            model=family,
            cluster=rng.choice(clusters),
            team=rng.choice(teams),
            outcome="failed",
        )
        for n in range(jobs)
    )
    leaves = [leaf.id for leaf in taxonomy.load().leaves() if leaf.category not in {"none", "unknown"}]
    weights = [1 / (n + 1) for n in range(len(leaves))]
    number = dict.fromkeys((job.pk for job in made_jobs), 0)
    for batch in batched(range(incidents), 2000):
        _batch(len(batch), rng, made_jobs, number, by_cluster, (leaves, weights), findings_each, user, now)


def _batch(
    size: int,
    rng: random.Random,
    jobs: list[Job],
    number: dict[int, int],
    by_cluster: dict[int, dict[str, Node]],
    categories: tuple[list[str], list[float]],
    findings_each: int,
    user: Any,
    now: datetime,
) -> None:
    attempts = []
    for _ in range(size):
        job = rng.choice(jobs)
        ended_at = now - timedelta(seconds=rng.random() * 400 * 86_400)
        ran_s = rng.expovariate(1 / 40_000)
        attempts.append(
            Attempt(
                job=job,
                number=number[job.pk],
                outcome="failed",
                node_count=rng.choice((16, 32, 64, 128, 512)),
                started_at=ended_at - timedelta(seconds=ran_s),
                ended_at=ended_at,
                ran_s=ran_s,
                **_training(rng, ended_at, ran_s),
            )
        )
        number[job.pk] += 1
    attempts = Attempt.objects.bulk_create(attempts)
    lean = {"version": 1, "engine": "measure", "headline": "measure", "logs": {"events": []}, "suspects": []}
    listed = events(findings_each)
    whole = {**lean, "logs": {"events": listed}, "observed": ["Xid 79 on one node of 64."]}
    diagnoses = Diagnosis.objects.bulk_create(
        Diagnosis(
            job=a.job,
            attempt=a,
            revision=1,
            engine="measure",
            # whole reports of all jobs would fill the disk; only jobs whose pages are requested have their events
            report=whole if a.ended_at and now - a.ended_at < timedelta(days=WHOLE_DAYS) else lean,
        )
        for a in attempts
    )
    rows = Incident.objects.bulk_create(_incident(d, rng, by_cluster, categories) for d in diagnoses)
    Suspect.objects.bulk_create(
        Suspect(
            incident=row,
            position=n,
            entity=name,
            kind="node",
            node=by_cluster[row.cluster_id][name],
            score=0.9 - n / 10,
            reasons=["Xid 79 only here", "last line 600 s before its peers"],
            sources=["logs"],
        )
        for row in rows
        for n, name in enumerate(row.accused)
    )
    spoken = _spoken()
    Finding.objects.bulk_create(
        Finding(
            incident=row,
            position=n,
            template_id=event["id"],
            of_nodes=row.node_count or 1,
            **{**_columns(event), **_words(spoken, rng)},
        )
        for row in rows
        for n, event in enumerate(listed)
    )
    Activity.objects.bulk_create(Activity(incident=row, job=row.job, kind="diagnosed", data={}) for row in rows)
    words = {
        "confirmed": "confirm",
        "corrected": "correct",
        "rejected": "reject",
        "actioned": "confirm",
        "resolved": "confirm",
    }
    Decision.objects.bulk_create(
        Decision(
            incident=row,
            claim="category",
            word=words[row.state],
            machine_value=row.category,
            value=row.standing_category,
            diagnosis=row.diagnosis,
            made_by=user,
        )
        for row in rows
        if row.state in words
    )


def _training(rng: random.Random, ended_at: datetime, ran_s: float) -> dict[str, Any]:
    """What the evidence of an attempt shows of its steps: they begin late and end before it ends."""
    first = rng.randrange(50_000)
    return {
        "training_at": ended_at - timedelta(seconds=0.97 * ran_s),
        "trained_until": ended_at - timedelta(seconds=0.05 * ran_s),
        "first_step": first,
        "last_step": first + 1 + int(ran_s / 6),
    }


def events(count: int) -> list[dict[str, Any]]:
    """Log events as a report lists them: two roots, then their consequences."""
    return [
        {
            "id": f"{n:032x}",
            "role": "root" if n < 2 else "cascade",
            "template": f"NVRM: Xid (PCI:<PCI>): {n}, pid=<NUM>, GPU has fallen off the bus",
            "count": n + 1,
            "nodes": 1,
            "of_nodes": 64,
            "healthy_jobs": 40,
            "level": 4,
            "example": f"NVRM: Xid (PCI:0000:9b:00): 79, pid={4000 + n}, GPU has fallen off the bus",
            "lines": [
                {
                    "file": f"logs/gpu-{k:04d}.log",
                    "line": 812 + n,
                    "offset": 90_000,
                    "length": 80,
                    "node": f"gpu-{k:04d}",
                }
                for k in range(3)
            ],
        }
        for n in range(count)
    ]


@cache
def _spoken() -> tuple[list[tuple[str, str]], list[float]]:
    """Rule and example of every signature, and how often each occurs: a few very often, most of them rarely."""
    from diagnosis.kinds.logs.meaning import signatures

    said = [(rule.id, text) for rule in signatures.load().signatures for text in rule.examples]
    random.Random(1).shuffle(said)
    return said, [1 / (n + 1) for n in range(len(said))]


def _words(spoken: tuple[list[tuple[str, str]], list[float]], rng: random.Random) -> dict[str, str]:
    """The text of one finding: an example with its own numbers."""
    rule, text = rng.choices(*spoken)[0]
    said = re.sub(r"\d{3,}", lambda found: str(rng.randrange(10 ** len(found[0][:9]))), text)
    return {"example": said, "template": re.sub(r"\d+", "<NUM>", text), "signature": rule[:120]}


def _columns(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in ("role", "template", "count", "nodes", "example", "lines")}


def wide_job(*, nodes: int, days: int, now: datetime) -> str:
    """A job of so many nodes over so many days, a checkpoint every three hours, one error a node; returns its slug."""
    job = Job.objects.create(slug="wide", name="Wide", cluster=Cluster.objects.get(slug="north"), outcome="failed")
    attempt = Attempt.objects.create(job=job, number=0, ended_at=now, node_count=nodes, outcome="failed")
    end = now.timestamp()
    begin, count = end - days * 86_400, days * 16
    edges = [begin + k * (end - begin) / count for k in range(count + 1)]
    stages = [
        {"stage": "checkpoint_save" if k % 2 else "training", "t0": edges[k], "t1": edges[k + 1]} for k in range(count)
    ]
    lanes = [
        {
            "node": f"gpu-north-{n:04d}",
            # each begins a little later than the one before, as nodes do
            "segments": cut_stages(stages, (begin + n / 10, end)),
            "marks": [
                {"t": end - 900.0 + n / 10, "role": "root" if n == nodes // 2 else "cascade", "event": "Xid 79",
                 "file": f"logs/gpu-{n:04d}.log", "line": 812}
            ],
            "last_line_at": end - 600.0 + n / 10,
        }
        for n in range(nodes)
    ]  # fmt: skip
    points = [{"n": 10 * n, "t": begin + n * (end - begin) / 400, "seconds": 6.0} for n in range(400)]
    timeline = fold({"t0": begin, "t1": end, "stages": stages, "lanes": lanes, "iterations": points})
    report = {"version": 1, "engine": "measure", "headline": "measure", "logs": {"events": events(10)}, "suspects": []}
    Diagnosis.objects.create(job=job, attempt=attempt, revision=1, engine="measure", report=report, timeline=timeline)
    return job.slug


def _incident(
    diagnosis: Diagnosis,
    rng: random.Random,
    by_cluster: dict[int, dict[str, Node]],
    categories: tuple[list[str], list[float]],
) -> Incident:
    attempt, job = diagnosis.attempt, diagnosis.job
    category, standing = rng.choices(*categories, k=2)
    state = rng.choices([s for s, _ in _STATES], [w for _, w in _STATES])[0]
    happened_at = attempt.ended_at or diagnosis.created_at
    names = list(by_cluster[job.cluster_id])
    # a few machines are lemons: squaring the draw favours the head of the list
    accused = list({names[int(rng.random() ** 2 * len(names))] for _ in range(rng.choice((0, 1, 1, 2)))})
    lost_s = rng.expovariate(1 / 3000)
    node_hours = lost_s / 3600 * (attempt.node_count or 1)
    headline = f"{accused[0] if accused else job.name} failed in {category} at iteration {rng.randrange(90_000)}"
    resolved_at = happened_at + timedelta(hours=rng.expovariate(1 / 9)) if state == _State.RESOLVED else None
    return Incident(
        job=job,
        cluster=job.cluster,
        team_id=job.team_id,
        attempt=attempt,
        diagnosis=diagnosis,
        state=state,
        headline=headline,
        category=category,
        standing_category={_State.CORRECTED: standing, _State.REJECTED: taxonomy.UNKNOWN}.get(state, category),
        confidence=rng.random(),
        symptom=rng.choice(_SYMPTOMS),
        stage=rng.choice(_STAGES),
        iteration=rng.randrange(90_000),
        fingerprint=f"{rng.randrange(20_000):064x}",
        node_count=attempt.node_count,
        accused=accused,
        happened_at=happened_at,
        week=week_of(happened_at),
        opened_at=happened_at + timedelta(seconds=rng.expovariate(1 / 400)),
        detected_s=rng.expovariate(1 / 400),
        lost_s=lost_s,
        node_hours=node_hours,
        gpu_hours=node_hours * 8,
        reviewed_at=None if state == _State.AWAITING_REVIEW else happened_at + timedelta(hours=2),
        resolved_at=resolved_at,
        repaired_s=(resolved_at - happened_at).total_seconds() if resolved_at else None,
    )
