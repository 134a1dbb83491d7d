"""Chooses the next action by the ladder of rules (``advice.toml``) and explains the choice.

Source: ByteRobust, arXiv 2509.16293, section 4 (figure 5). Advice is shown, never executed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from diagnosis import taxonomy, thresholds
from diagnosis.conclusion.model import PROBLEM_CONDITIONS, symptom_of
from diagnosis.kinds.stacks.blame.blame import ranks_text
from diagnosis.ladder import Ladder, Rule, load
from diagnosis.tried import ACTIONS, EVICTING_ACTIONS, tried_actions, was_tried

THRESHOLDS: Final = thresholds.of("advice")
LIMITS: Final = thresholds.limits("advice")

SAFE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._\-]*[A-Za-z0-9])?")
_SLURM_ID = re.compile(r"[0-9]+(?:_[0-9]+)?")


def facts_of(parts: Mapping[str, Any], rungs: Ladder) -> dict[str, Any]:
    """Facts about one diagnosis: ``logs``, ``flows``, ``stacks`` as in the report, ``suspects`` fused, ``job``,
    ``tried`` (actions that were carried out in this episode without success)."""
    logs, stacks, flows = (dict(parts.get(k) or {}) for k in ("logs", "stacks", "flows"))
    tried = {t.action for t in tried_actions(parts.get("tried") or ())}
    tried |= {"evict"} if tried & EVICTING_ACTIONS else set()
    told = dict(parts.get("conclusion") or {})
    leaf = str((told or logs).get("subcategory") or "")
    category = str((told or logs).get("category") or "")
    fused = _accused_rows(parts)
    nodes = [s for s in fused if s.get("kind") == "node" and float(s.get("score") or 0) >= THRESHOLDS.accused]
    logged = [n["node"] for n in logs.get("nodes") or () if n.get("suspect", True)]
    culprits = [str(s["entity"]) for s in nodes] or ([] if fused or told else [str(n) for n in logged])
    slow = {
        str(d.get("switch")) for d in flows.get("diagnoses") or () if d.get("kind") == "slow_switch" and d.get("switch")
    }
    # A switch behind a more probable machine is a doubt about that machine, not the place to act.
    leads = bool(fused) and fused[0].get("kind") in ("switch", "link")
    accused_switches = [str(s["entity"]) for s in fused if s.get("kind") in ("switch", "link")] if leads else []
    switches = accused_switches or ([] if told else sorted(slow))
    # People dump stacks of hung or slow jobs: without logs this alone shows the symptom.
    has_stacks = bool(stacks.get("ranks") or stacks.get("suspect_ranks") or stacks.get("reason"))
    symptom = str(logs.get("symptom") or ("" if not has_stacks else "slow" if stacks.get("is_moving") else "hang"))
    symptom = symptom_of(told, symptom)
    accused = {str(s["entity"]) for s in fused if s.get("kind") == "node"}
    named = list(stacks.get("suspect_nodes") or ())
    stack_nodes = [n for n in named if n in accused] if told else named
    evicted = list(stacks.get("evict_nodes") or ())
    everyone = {r.get("node") for r in stacks.get("ranks") or () if r.get("node")} | set(
        (parts.get("job") or {}).get("node_names") or ()
    )
    odd = [g for g in stacks.get("groups") or () if set(g.get("ranks") or ()) & set(stacks.get("suspect_ranks") or ())]
    return {
        "is_failure": told["condition"] in PROBLEM_CONDITIONS if told else bool(logs.get("is_failure", has_stacks)),
        "has_stacks": has_stacks,
        "stack_reason": str(stacks.get("reason") or ""),
        "symptom": symptom,
        "category": category,
        "subcategory": leaf,
        "cause": _title(str((told or logs).get("id") or "")) or leaf,
        "is_cause_known": leaf not in ("", "unknown"),
        "confidence": float((told or logs).get("confidence") or 0.0),
        "is_machine_event": leaf in rungs.leaves.get("machine_events", ()),
        "is_network_event": leaf in rungs.leaves.get("network_events", ()),
        "is_input_error": leaf in rungs.leaves.get("input_errors", ()),
        "is_memory_error": leaf in rungs.leaves.get("memory_errors", ()),
        "is_user_error": category == "user"
        and leaf not in rungs.leaves.get("memory_errors", ())
        and leaf != "nan_divergence",
        "is_outside": leaf in rungs.leaves.get("outside", ()),
        "is_nan": leaf in {"nan_divergence", "silent_data_corruption"},
        "is_silent": symptom in {"hang", "slow"},
        "is_host_code": bool(odd) and all(g.get("activity") in {"host", "local"} for g in odd),
        "is_mismatch": _is_mismatch(stacks),
        "network_alerts": _alerts(logs.get("events") or (), rungs),
        "culprit_nodes": culprits,
        "suspect_score": max((float(s.get("score") or 0) for s in nodes), default=1.0 if culprits else 0.0),
        "stack_suspects": list(stacks.get("suspect_ranks") or ()),
        "stack_who": ranks_text(stacks.get("suspect_ranks") or ()),
        "stack_nodes": stack_nodes,
        "evict_nodes": evicted,
        "is_group_due": bool(evicted) and (set(evicted) <= accused or "evict" in tried),
        "evict_share": len(evicted) / max(1, len(everyone)),
        "switches": switches,
        "has_conflict": bool(named and logged and not set(named) & set(logged) and not set(evicted) & set(logged)),
        "has_tie": bool(stacks.get("tie")),
        **{f"tried_{a}": a in tried for a in ("evict", "stop_time_check", "reattempt", "rollback")},
    }


def _accused_rows(parts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The accused of the conclusion; in a report without one, the fused suspects."""
    conclusion = parts.get("conclusion")
    if conclusion:
        return [{"entity": f["name"], "kind": f["kind"], "score": f["p"]} for f in conclusion["fault"]]
    return [dict(s) for s in parts.get("suspects") or () if isinstance(s, Mapping)]


def _is_mismatch(stacks: Mapping[str, Any]) -> bool:
    """A clean split in two, or Flight Recorder reports it. Several odd groups are a chain of waits, which a machine may
    cause.
    """
    if (stacks.get("collectives") or {}).get("mismatched"):
        return True
    is_split = [g for g in stacks.get("groups") or () if not g.get("dominant")]
    return stacks.get("rule") == "mismatch" and len(is_split) == 1


def _alerts(events: Iterable[Mapping[str, Any]], rungs: Ladder) -> int:
    """Most network alerts of one node within the window; an event counts if its category or signature is a network
    leaf.
    """
    leaves = rungs.leaves.get("network_events", frozenset())
    times: dict[str, list[float]] = defaultdict(list)
    for event in events:
        alerts = f"{event.get('category') or ''} {event.get('subcategory') or ''} {event.get('signature') or ''}"
        if not any(leaf in alerts or leaf.replace("_", ".") in alerts for leaf in leaves) and "network." not in alerts:
            continue
        for line in event.get("lines") or ():
            at = line.get("time")
            if line.get("node") and isinstance(at, (int, float)):
                times[str(line["node"])].append(float(at))
    best = 0
    for stamps in times.values():
        stamps.sort()
        start = 0
        for end, at in enumerate(stamps):
            while at - stamps[start] > THRESHOLDS.network_s:
                start += 1
            best = max(best, end - start + 1)
    return best


def advise(parts: Mapping[str, Any], rungs: Ladder | None = None) -> dict[str, Any]:
    """The advice for one diagnosis.

    :param parts: ``logs``, ``stacks``, ``flows`` (report objects), ``suspects`` (fused), ``job`` (``id``, ``nodes``,
        ``node_names``, ``gpus_per_node``, ``scheduler``), ``tried`` (actions already carried out without success, see
        :func:`tried_actions`). All optional.
    :returns: ``action, rule, title, targets, command, commands, cost, because, next, source, checks, nearly,
        would_decide, passed_over``.
        ``nearly`` lists the rules about the same subject for which one or two conditions do not hold, with these
        conditions; ``passed_over`` those that hold but whose action was tried.
    """
    rungs = rungs or load()
    facts = facts_of(parts, rungs)
    tried = tried_actions(parts.get("tried") or ())
    holding = [r for r in rungs.rules if all(c.holds(facts) for c in r.when)]
    fired = next((r for r in holding if not was_tried(r.action, facts.get(r.targets) or (), tried)), rungs.rules[-1])
    passed = [r for r in holding[: holding.index(fired)] if r is not fired] if fired in holding else holding
    nearly = []
    decide: list[str] = []
    for rule in rungs.rules:
        lacking = [c for c in rule.when if not c.holds(facts)]
        # The first condition of a rule is its subject; a rule with another subject is not near.
        if rule is fired or not lacking or lacking[0] is rule.when[0] or len(lacking) > 2:
            continue
        nearly.append(
            {"rule": rule.id, "title": rule.title, "action": rule.action, "missing": [c.otherwise for c in lacking]}
        )
        decide += [c.decide for c in lacking if c.decide]
    targets = [str(t) for t in facts.get(fired.targets) or ()] if fired.targets else []
    job = dict(parts.get("job") or {})
    commands, unsafe = _commands(fired, targets, job, rungs)
    because = [_fill(fired.why, facts)]
    if passed:
        done = "; ".join(dict.fromkeys(t.label for t in tried))
        left = "No further action is known." if fired is rungs.rules[-1] else "This is the next action."
        because.insert(0, f"Already tried without success: {done}. {left}")
    if unsafe:
        because.append(f"{len(unsafe)} name(s) cannot be node names and were left out of the command.")
    scheduler = "kubernetes" if "kube" in str(job.get("scheduler") or "").lower() else "slurm"
    return {
        "action": fired.action,
        "action_title": ACTIONS[fired.action],
        "rule": fired.id,
        "title": fired.title,
        "targets": targets,
        "command": commands.get(scheduler, ""),
        "commands": commands,
        "cost": _cost(fired, targets, facts, job),
        "because": because,
        "next": fired.next,
        "source": fired.source,
        "nearly": nearly[:6],
        "would_decide": list(dict.fromkeys(decide))[:6],
        "passed_over": [
            {"rule": r.id, "title": r.title, "action": r.action, "action_title": ACTIONS[r.action]} for r in passed
        ],
        "checks": [
            {
                "id": c,
                "title": rungs.checks[c]["title"],
                "command": rungs.checks[c]["command"].format(
                    gpus_per_node=job.get("gpus_per_node") or LIMITS.gpus_per_node
                ),
            }
            for c in fired.checks
        ],
    }


def _title(leaf_id: str) -> str:
    """The title of a category; empty for an unknown id."""
    tree = taxonomy.load()
    return tree.get(leaf_id).title if leaf_id in tree else ""


def _fill(text: str, facts: Mapping[str, Any]) -> str:
    def said(m: re.Match[str]) -> str:
        value = facts.get(m[1], "")
        if isinstance(value, (list, tuple)):
            shown = ", ".join(str(v) for v in value[: LIMITS.shown])
            return shown + (f" and {len(value) - LIMITS.shown} more" if len(value) > LIMITS.shown else "") or "none"
        return str(value).replace("_", " ") or "unknown"

    filled = re.sub(r"\{(\w+)\}", said, text)
    is_name = any(letter.isdigit() for letter in filled.partition(" ")[0])  # name of a machine: unchanged
    return filled if is_name else filled[:1].upper() + filled[1:]


def _commands(
    rule: Rule, targets: Sequence[str], job: Mapping[str, Any], rungs: Ladder
) -> tuple[dict[str, str], list[str]]:
    """Commands to copy. Names come from uploaded evidence: a name that is not a plain host name never enters a shell
    line.
    """
    safe = [t for t in targets if SAFE_NAME.fullmatch(t)]
    unsafe = [t for t in targets if t not in safe]
    if rule.targets == "switches":
        return {}, unsafe
    job_id = str(job.get("id") or "")
    node_count = len(job.get("node_names") or ()) or int(job.get("nodes") or 0)
    every = "" if safe or f"{rule.action}_all" not in rungs.commands else "_all"
    filled = {}
    for scheduler, template in rungs.commands.get(rule.action + every, {}).items():
        if "{node_count}" in template and not node_count:
            continue
        if ("{nodes" in template or "{first}" in template) and not safe:
            continue
        if "{job}" in template and not SAFE_NAME.fullmatch(job_id):
            continue
        # Slurm identifies jobs by number; without one the reader inserts it.
        its_id = job_id if scheduler != "slurm" or _SLURM_ID.fullmatch(job_id) else "<job id>"
        filled[scheduler] = template.format(
            nodes=",".join(safe),
            nodes_spaced=" ".join(safe),
            first=safe[0] if safe else "",
            job=its_id,
            reason=rule.id,
            node_count=node_count,
        )
    return filled, unsafe


def _cost(rule: Rule, targets: Sequence[str], facts: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """The cost of the action: ``machines`` and ``gpus`` (None if unknown) out of service, ``healthy`` ones expected
    among them, ``text``.
    """
    per_node = job.get("gpus_per_node")
    machines = len(targets) if rule.action in EVICTING_ACTIONS else 0
    faulty = (
        min(machines, max(1, len(facts["stack_nodes"]) if rule.action == "over_evict" else machines)) if machines else 0
    )
    healthy = machines - faulty
    text = {
        "evict": f"{machines} machine(s) leave the job; one restart.",
        "over_evict": f"{machines} machine(s) leave the job, {healthy} of them probably healthy; one restart.",
        "stop_time_check": "The job is stopped while the checks run, minutes to an hour.",
        "reattempt": "One restart, and the steps since the last checkpoint again.",
        "resubmit": "The wait in the queue, and the steps since the last checkpoint again.",
        "rollback": "A hot update and one restart; the change that is taken back.",
        "replay": "Two replays of the job on all its machines.",
        "fix_input": "One restart after the correction.",
    }.get(rule.action, "Nothing but a look.")
    return {
        "machines": machines,
        "gpus": machines * int(per_node) if per_node and machines else None,
        "healthy": healthy,
        "text": text,
    }
