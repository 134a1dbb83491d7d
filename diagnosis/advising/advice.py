"""Chooses the next action by the ladder of rules (``advice.toml``) and explains the choice.

Source: ByteRobust, arXiv 2509.16293, section 4 (figure 5). Advice is shown, never executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from diagnosis import thresholds
from diagnosis.advising.advice_facts import AdviceEvidence, JobPart, Known, facts_of, machines_in
from diagnosis.advising.ladder import Condition, Facts, Ladder, Rule, load
from diagnosis.records.advice_records import Advice, AdviceCost, AdvisedCheck, NearRule, PassedRule
from diagnosis.records.tried import ACTIONS, EVICTING_ACTIONS, was_tried
from diagnosis.values.plain import listed

LIMITS: Final = thresholds.limits("advice")

SAFE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._\-]*[A-Za-z0-9])?")
#: Near rules, and doubts that would decide, that an advice lists.
MAX_LISTED = 6
_SLURM_ID = re.compile(r"[0-9]+(?:_[0-9]+)?")
_PLACEHOLDER = re.compile(r"\{(\w+)")


def advise(evidence: AdviceEvidence, ladder: Ladder | None = None) -> Advice:
    """The advice for one diagnosis; for a stored report, ``evidence`` is decoded from it."""
    ladder = ladder or load()
    known = Known(evidence, ladder)
    facts = facts_of(known)
    fired, passed = _first_open(ladder.rules, known, facts)
    near = _near_rules(ladder.rules, fired, facts)
    targets = machines_in(facts, fired.targets)
    commands, unsafe = _commands(fired, targets, known.job, ladder)
    scheduler = "kubernetes" if "kube" in known.job.scheduler.lower() else "slurm"
    because = [_fill(fired.why, facts), *_left_out_texts(unsafe)]
    if passed:
        because.insert(0, _tried_text(known, is_last=fired is ladder.rules[-1]))
    decide = [condition.decide for _, lacking in near for condition in lacking if condition.decide]
    return Advice(
        action=fired.action,
        action_title=ACTIONS[fired.action],
        rule=fired.id,
        title=fired.title,
        targets=targets,
        command=commands.get(scheduler, ""),
        commands=commands,
        cost=_cost(fired, targets, known),
        because=because,
        next=_fill(fired.next, facts),
        source=fired.source,
        nearly=[_nearly(rule, lacking) for rule, lacking in near[:MAX_LISTED]],
        would_decide=list(dict.fromkeys(decide))[:MAX_LISTED],
        passed_over=[PassedRule(rule.id, rule.title, rule.action, ACTIONS[rule.action]) for rule in passed],
        checks=[_check(id_, ladder, known.job) for id_ in fired.checks],
    )


def _first_open(rules: Sequence[Rule], known: Known, facts: Facts) -> tuple[Rule, list[Rule]]:
    """The first rule that holds and whose action was not tried, else the last of all; and those passed before it."""
    holding = [rule for rule in rules if all(condition.holds(facts) for condition in rule.when)]
    fresh = (rule for rule in holding if not was_tried(rule.action, machines_in(facts, rule.targets), known.tried))
    fired = next(fresh, rules[-1])
    return fired, list(takewhile(lambda rule: rule is not fired, holding))


def _near_rules(rules: Iterable[Rule], fired: Rule, facts: Facts) -> list[tuple[Rule, list[Condition]]]:
    """The rules for which one or two conditions do not hold, with these. The first condition of a rule is its subject;
    a rule with another subject is not near.
    """
    near = []
    for rule in rules:
        lacking = [condition for condition in rule.when if not condition.holds(facts)]
        if rule is not fired and 1 <= len(lacking) <= 2 and lacking[0] is not rule.when[0]:
            near.append((rule, lacking))
    return near


def _tried_text(known: Known, *, is_last: bool) -> str:
    """What was tried already, as a sentence."""
    done = "; ".join(dict.fromkeys(tried.label for tried in known.tried))
    left = "No further action is known." if is_last else "This is the next action."
    return f"Already tried without success: {done}. {left}"


def _left_out_texts(unsafe: Sequence[str]) -> list[str]:
    """How many names do not enter a command."""
    if not unsafe:
        return []
    return [f"{len(unsafe)} name(s) cannot be node names and were left out of the command."]


def _nearly(rule: Rule, lacking: Sequence[Condition]) -> NearRule:
    return NearRule(rule.id, rule.title, rule.action, [condition.otherwise for condition in lacking])


def _check(id_: str, ladder: Ladder, job: JobPart) -> AdvisedCheck:
    check = ladder.checks[id_]
    command = check["command"].format(gpus_per_node=job.gpus_per_node or LIMITS.gpus_per_node)
    return AdvisedCheck(id_, check["title"], command)


def _fill(text: str, facts: Facts) -> str:
    def said(m: re.Match[str]) -> str:
        value = facts.get(m[1], "")
        if isinstance(value, (list, tuple)):
            return listed(list(map(str, value)), LIMITS.shown) or "none"
        is_sentence = " " in str(value)
        words = str(value) if is_sentence else str(value).replace("_", " ")
        return words or "unknown"

    filled = re.sub(r"\{(\w+)\}", said, text)
    is_name = any(letter.isdigit() for letter in filled.partition(" ")[0])  # name of a machine: unchanged
    return filled if is_name else filled[:1].upper() + filled[1:]


def _commands(rule: Rule, targets: Sequence[str], job: JobPart, ladder: Ladder) -> tuple[dict[str, str], list[str]]:
    """Commands to copy, and the names that cannot enter one. Names come from uploaded evidence: a name that is not a
    plain host name never enters a shell line.
    """
    safe = [name for name in targets if SAFE_NAME.fullmatch(name)]
    unsafe = [name for name in targets if name not in safe]
    if rule.targets == "switches" or not rule.has_commands:
        return {}, unsafe
    every = "" if safe or f"{rule.action}_all" not in ladder.commands else "_all"
    filled = {}
    for scheduler, template in ladder.commands.get(rule.action + every, {}).items():
        values = _values(scheduler, safe, job)
        if all(values[name] for name in _PLACEHOLDER.findall(template) if name in values):
            filled[scheduler] = template.format(**values, reason=rule.id)
    return filled, unsafe


def _values(scheduler: str, names: Sequence[str], job: JobPart) -> dict[str, str]:
    """What the placeholders of a command stand for; an empty value: this command cannot be filled."""
    job_id = job.id if SAFE_NAME.fullmatch(job.id) else ""
    # Slurm identifies jobs by number; without one the reader inserts it.
    if job_id and scheduler == "slurm" and not _SLURM_ID.fullmatch(job_id):
        job_id = "<job id>"
    return {
        "nodes": ",".join(names),
        "nodes_spaced": " ".join(names),
        "first": names[0] if names else "",
        "job": job_id,
        "node_count": str(job.node_count or ""),
    }


def _cost(rule: Rule, targets: Sequence[str], known: Known) -> AdviceCost:
    """The cost of the action."""
    machines = len(targets) if rule.action in EVICTING_ACTIONS else 0
    healthy = 0
    if rule.action == "over_evict":
        healthy = machines - min(machines, max(1, len(known.stack_nodes)))
    text = {
        "evict": f"{machines} machine(s) leave the job; one restart.",
        "over_evict": f"{machines} machine(s) leave the job, {healthy} of them probably healthy; one restart.",
        "stop_time_check": "The job is stopped while the checks run, minutes to an hour.",
        "reattempt": "One restart, and the steps since the last checkpoint again.",
        "resubmit": "The wait in the queue, and the steps since the last checkpoint again.",
        "rollback": "A hot update and one restart; the change that is taken back.",
        "replay": "Two replays of the job on all its machines.",
        "fix_input": "One restart after the correction.",
        "free_space": "One restart after the correction.",
        "use_less_memory": "One restart after the correction.",
        "fix_code": "One restart after the correction.",
        "fix_setup": "One restart after the correction.",
    }.get(rule.action, "Nothing but a look.")
    return AdviceCost(machines, machines * known.job.gpus_per_node or None, healthy, text)
