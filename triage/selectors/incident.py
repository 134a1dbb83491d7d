"""Everything that one incident's page shows."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from django.db.models import Case, CharField, Count, Q, Value, When
from django.urls import reverse
from django.utils import timezone

from diagnosis import taxonomy
from diagnosis.evidence import COURSE_KINDS
from ingest.models import DEMONSTRATION
from triage.domain import standing
from triage.domain.finding_facts import FindingFacts, findings_of, key_of, note_of
from triage.domain.judged import judged_report
from triage.models import Activity, Decision, Incident, Suspect
from triage.selectors.advice import tried_earlier, tried_words
from triage.selectors.affected import affected_words
from triage.selectors.demonstration import comparable_rows
from triage.selectors.incidents import incidents_visible_to
from triage.selectors.memory import cached_result, updated_result
from triage.selectors.routes import latest_ticket
from triage.selectors.strip import Strip, strip_of
from triage.selectors.strip_entries import Entry

MAX_SIMILAR = 10
#: evidence shown before the fold
MAIN_FINDINGS = 6
#: reasons against the first suspect that are shown at once
MAIN_REASONS = 3
#: incidents with only the same category are similar if they are this recent
SIMILAR_DAYS = 60
#: roles that are evidence; advice and benign lines are never shown as such
EVIDENCE_ROLES = ("root", "cascade", "confirmation", "teardown")


_DECISION_VERBS = {"confirm": "confirmed", "reject": "rejected", "inconclusive": "found inconclusive:"}


@dataclass(frozen=True, slots=True)
class ClaimView:
    """One claim of the machine with the decision that stands on it."""

    claim: str
    title: str
    machine: str
    shown: str
    word: Decision | None


@dataclass(frozen=True, slots=True)
class SuspectView:
    """A suspect with its decision and its earlier accusations."""

    row: Suspect
    word: Decision | None
    past: int
    past_confirmed: int
    #: of the node, in another system: title, url, state
    ticket: dict[str, str] | None
    #: whether the suspect before it has the same reasons
    repeats: bool
    is_first: bool

    @property
    def reasons(self) -> list[str]:
        """Its reasons that the suspect before it does not have."""
        return [] if self.repeats else [str(reason) for reason in self.row.reasons]

    @property
    def first_reasons(self) -> list[str]:
        """Those that are shown at once: more of them for the first suspect."""
        return self.reasons[: MAIN_REASONS if self.is_first else 1]

    @property
    def later_reasons(self) -> list[str]:
        return self.reasons[len(self.first_reasons) :]


@dataclass(frozen=True, slots=True)
class IncidentView:
    """The page."""

    incident: Incident
    report: dict[str, Any]
    category: ClaimView
    claims: list[ClaimView]
    suspects: list[SuspectView]
    others: list[SuspectView]
    added: list[Decision]
    #: all of them, also those that were undone
    decisions: list[Decision]
    findings: list[FindingFacts]
    #: activities that its panels use, some of them of earlier attempts
    activities: list[Activity]
    entries: list[dict[str, Any]]
    relatives: list[tuple[Incident, str]]
    is_outdated: bool
    #: the causal strip; None for a report without a conclusion
    strip: Strip | None

    @property
    def disagreements(self) -> list[str]:
        """Contradictions between kinds of evidence, a sentence with both sides each. The stated outcome is shown
        elsewhere.
        """
        rows = (self.report.get("conclusion") or {}).get("disagreements") or []
        texts = [str(row.get("text") or "") for row in rows if row.get("about") != "outcome"]
        return [text for text in texts if text]

    @property
    def names(self) -> list[str]:
        """What may be named instead of a suspect: those that were ranked, then every node that the evidence names."""
        ranked = [one.row.entity for one in (*self.suspects, *self.others)]
        mentioned = set(itertools.chain.from_iterable(row.node_names for row in self.findings))
        return list(dict.fromkeys([*ranked, *sorted(mentioned)]))

    @property
    def standing_accused(self) -> list[str]:
        """Who is at fault after review: whom nobody rejected, and those whom people named."""
        return standing.accused_of([one.row.entity for one in self.suspects], self.decisions)

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The checks that would decide it, cheapest first."""
        return list((self.report.get("conclusion") or {}).get("checks") or [])

    @property
    def answer(self) -> str:
        """Why nobody is accused: where it was seen."""
        seen = (self.report.get("conclusion") or {}).get("seen") or []
        nodes = [str(row["name"]) for row in seen if row["kind"] == "node"]
        ranks = [str(row["name"]) for row in seen if row["kind"] == "rank"]
        parts = [", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")] if nodes else []
        if ranks:
            word = "rank" if len(ranks) == 1 else "ranks"
            parts.append(f"{word} {', '.join(ranks[:4])}{' and more' if len(ranks) > 4 else ''}")
        return f"The failure was seen on {', '.join(parts)}." if parts else ""

    @property
    def seen(self) -> int:
        """The newest decision that this page shows, for its forms: 0 if there is none."""
        return max((decision.pk for decision in self.decisions), default=0)

    @property
    def affected(self) -> str:
        """Who else it stopped, in words."""
        return affected_words(self.incident, self.findings, [one.row.entity for one in self.suspects])

    @property
    def key_finding(self) -> FindingFacts | None:
        return key_of(self.findings, self.standing_accused)

    @property
    def key_note(self) -> str:
        """What the line at the top is if it does not name the cause."""
        return note_of(self.key_finding, self.standing_accused)

    @property
    def shown_entries(self) -> list[Entry]:
        """What shows it if no line of the logs does: the first findings of what is wrong."""
        if self.key_finding is not None or self.strip is None:
            return []
        telling = [row for row in self.strip.rows if row.what not in {*COURSE_KINDS, "teardown"}]
        by_place = {(row.source, str(row.evidence)): row for row in reversed(telling)}
        return [row for row in telling if row in by_place.values()][:MAIN_REASONS]

    @property
    def said_texts(self) -> str:
        """What the headline and the suspects say already."""
        reasons = itertools.chain.from_iterable(one.row.reasons for one in self.suspects)
        return "\n".join([self.incident.headline, *reasons])

    @property
    def further_findings(self) -> list[FindingFacts]:
        """All findings except the one at the top of the page."""
        return [row for row in self.findings if row is not self.key_finding]

    @property
    def main_findings(self) -> list[FindingFacts]:
        """Findings shown at once: the roots, and the first of the others. With a causal strip, which shows consequences
        and teardown, the roots and confirmations.
        """
        further = self.further_findings
        if self.strip is not None:
            return [row for row in further if row.role in ("root", "confirmation")]
        return further[: max(MAIN_FINDINGS, sum(row.role == "root" for row in further))]

    @property
    def old_entries(self) -> list[dict[str, Any]]:
        """The machine's log entries except the latest: folded if there are many."""
        machine = [entry for entry in self.entries if entry["row"].actor_id is None]
        return machine[:-1] if len(machine) > 2 else []

    @property
    def late_findings(self) -> list[FindingFacts]:
        shown = {id(row) for row in self.main_findings}
        return [row for row in self.further_findings if id(row) not in shown]

    @property
    def late_words(self) -> str:
        """The number of folded findings per role."""
        counts = Counter(row.role for row in self.late_findings)
        return ", ".join(f"{n} {role}" for role, n in counts.items())


def incident_view(user: Any, incident: Incident) -> IncidentView:
    """Four queries besides the incident itself, for any size."""
    decisions = list(incident.decisions.select_related("made_by"))
    last = standing.latest_by_claim(decisions)
    rows = list(
        incident.suspects.select_related("node").annotate(
            past=_accusations(incident),
            past_confirmed=_accusations(incident, node__suspicions__word=Decision.Word.CONFIRM),
            ticket=latest_ticket("node"),
        )
    )
    rows.sort(key=lambda row: (not row.is_accused, -row.score, row.position))
    views = [
        SuspectView(
            row=row,
            word=last.get((Decision.Claim.SUSPECT, row.entity)),
            past=row.past,
            past_confirmed=row.past_confirmed,
            ticket=row.ticket,
            repeats=n > 0 and bool(row.reasons) and row.reasons == rows[n - 1].reasons,
            is_first=n == 0,
        )
        for n, row in enumerate(rows)
    ]
    names = {row.entity for row in rows}
    added = [
        word for (claim, subject), word in last.items() if claim == Decision.Claim.SUSPECT and subject not in names
    ]
    category_word = last.get((Decision.Claim.CATEGORY, ""))
    report = incident.diagnosis.report
    activities = _activities_of(incident)
    return IncidentView(
        incident=incident,
        report=report,
        category=ClaimView("category", "Category", incident.category, incident.standing_category, category_word),
        claims=_claims(incident, last),
        suspects=[view for view in views if view.row.is_accused],
        others=[view for view in views if not view.row.is_accused],
        added=added,
        decisions=decisions,
        findings=[row for row in findings_of(report) if row.role in EVIDENCE_ROLES],
        activities=activities,
        entries=_entries(incident, activities),
        relatives=cached_result(
            "relatives",
            user=user,
            parts=(incident.pk,),
            now=timezone.now(),
            compute=lambda: _relatives(user, incident),
        ),
        is_outdated=bool(
            category_word
            and category_word.diagnosis_id != incident.diagnosis_id
            and category_word.machine_value != incident.category
        ),
        strip=strip_of(judged_report(report, decisions)),
    )


def _accusations(incident: Incident, **decision: Any) -> Any:
    """How many other incidents accused the same node; with ``decision`` those with that decision on the node itself."""
    same = Q(node__suspicions__is_accused=True) & ~Q(node__suspicions__incident=incident)
    return Count("node__suspicions", filter=same & Q(**decision))


def _claims(incident: Incident, last: dict[tuple[str, str], Decision]) -> list[ClaimView]:
    stage, iteration = last.get((Decision.Claim.STAGE, "")), last.get((Decision.Claim.ITERATION, ""))
    machine_iteration = "" if incident.iteration is None else str(incident.iteration)
    return [
        ClaimView("stage", "Stage", incident.stage, _standing_value(incident.stage, stage), stage),
        ClaimView(
            "iteration", "Iteration", machine_iteration, _standing_value(machine_iteration, iteration), iteration
        ),
    ]


def _standing_value(machine: str, word: Decision | None) -> str:
    return word.value if word and word.word in (Decision.Word.CONFIRM, Decision.Word.CORRECT) else machine


def _activities_of(incident: Incident) -> list[Activity]:
    """The incident's activities, oldest first, and actions on earlier attempts with the same failure."""
    condition = Q(incident=incident)
    if incident.attempt.number > 0:
        condition |= tried_earlier(incident)
    rows = Activity.objects.filter(condition).select_related("actor", "incident__attempt").order_by("at", "pk")
    return list(rows.only("kind", "at", "data", "actor__username", "incident__attempt__number"))


def _entries(incident: Incident, activities: list[Activity]) -> list[dict[str, Any]]:
    """Its own activities, each with its sentence."""
    return [{"row": row, "words": activity_words(row)} for row in activities if row.incident_id == incident.pk]


def activity_words(row: Activity) -> str:
    """What was done, as the rest of a sentence that begins with the person."""
    data, tree = row.data, taxonomy.load()

    def in_words(value: Any) -> str:
        return tree[value].title if value in tree else str(value or "none").replace("_", " ")

    before, after, word = data.get("before"), data.get("after"), str(data.get("word"))
    what = f"suspect {data.get('subject')}" if data.get("claim") == "suspect" else f"the {data.get('claim')}"
    if row.kind == "decided" and word == "correct":
        return f"corrected {what}: {in_words(before)} → {in_words(after)}"
    words = {
        "diagnosed": f"diagnosed revision {data.get('revision')} with engine {data.get('engine')}: {in_words(after)}",
        "decided": f"{_DECISION_VERBS.get(word, 'judged')} {what}" + (f": {in_words(after)}" if after else ""),
        "undone": f"took back: {word} of {what}" if "claim" in data else f"took back: {word}",
        "assigned": f"assigned it to {after}" if after else "removed the assignee",
        "regressed": f"saw the fingerprint of resolved incident #{before} again",
        "acknowledged": f"learned that {data.get('who')} acknowledged it",
        "resolved_elsewhere": f"learned that {data.get('who')} resolved its alert",
        "snoozed": f"snoozed it until {str(after)[:16].replace('T', ' ')} UTC",
        "woken": "woke it",
        "merged": f"put it into group {after}",
        "split": f"took it out of group {before}",
        "commented": "commented",
        "ticketed": f"asked for a ticket by {data.get('subject')}",
        "checked": f"gave the output of a check of {data.get('subject')}: {after}",
        "tried": tried_words(row.kind, data),
        "untried": tried_words(row.kind, data),
    }
    on_behalf = f" for {data['who']}" if "heard_from" in data else ""
    return words.get(row.kind, f"set it to {in_words(row.kind)}{on_behalf}")


def _relatives(user: Any, incident: Incident) -> list[tuple[Incident, str]]:
    """Members of the same group, then the same fingerprint, then the same recent category; each with the reason."""
    same = Q(fingerprint=incident.fingerprint) if incident.fingerprint else Q(pk__in=[])
    same_group = Q(group=incident.group_id) if incident.group_id else Q(pk__in=[])
    recent = Q(pk__in=[])
    if incident.standing_category not in ("unknown", "none"):
        since = incident.opened_at - timedelta(days=SIMILAR_DAYS)
        recent = Q(standing_category=incident.standing_category, opened_at__gte=since)
    why = Case(
        When(same_group, then=Value("same group")),
        When(same, then=Value("same fingerprint")),
        default=Value("same category"),
        output_field=CharField(),
    )
    closeness = Case(When(same_group, then=Value(0)), When(same, then=Value(1)), default=Value(2))
    rows = (
        incidents_visible_to(user)
        .filter(same_group | ((same | recent) & comparable_rows(incident.job.cluster.slug)), is_withdrawn=False)
        .exclude(pk=incident.pk)
        .only("headline", "state", "standing_category", "happened_at")
        .annotate(why=why, closeness=closeness)
        .order_by("closeness", "-opened_at", "-id")[:MAX_SIMILAR]
    )
    return [(row, row.why) for row in rows]


#: number of categories that a correction offers before the tree
MAX_FREQUENT = 6


def frequent_categories(user: Any, cluster: str) -> list[str]:
    """The categories that people chose most often in the incidents of this person, most first: beside an incident of
    this cluster (its slug), and without imported records. One query an hour.
    """

    def count_categories(cached: list[str] | None) -> list[str]:
        if cached is not None:
            return cached
        incidents = incidents_visible_to(user).filter(comparable_rows(cluster), is_withdrawn=False, is_imported=False)
        incidents = incidents.filter(state__in=Incident.STOOD)
        with_category = incidents.exclude(standing_category__in=(taxonomy.UNKNOWN, taxonomy.NONE)).order_by()
        counts = (
            with_category.values_list("standing_category").annotate(n=Count("pk")).order_by("-n", "standing_category")
        )
        return [category for category, _ in counts[:MAX_FREQUENT]]

    sides = (cluster == DEMONSTRATION,)
    return updated_result("frequent categories", user=user, parts=sides, now=timezone.now(), renew=count_categories)


def log_url(slug: str, attempt: int, path: str, line: int | None = None, end: int | None = None) -> str:
    """The address of a line of evidence: ``…?line=120#L120``; the query serves readers without JavaScript."""
    url = reverse("log", args=[slug, attempt, path])
    if line is None:
        return url
    mark = f"L{line}" + (f"-L{end}" if end and end != line else "")
    return f"{url}?line={line}#{quote(mark)}"
