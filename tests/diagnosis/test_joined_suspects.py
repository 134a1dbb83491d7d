"""The fused ranking, the watchdogs' protocol, the launches of one tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from diagnosis import report, taxonomy
from diagnosis.evidence import FlowFinding, Suspect
from diagnosis.joining import joined_suspects, logs_or_stacks
from diagnosis.kinds import stacks
from diagnosis.kinds.logs.compare.clues import shared_leaf
from diagnosis.kinds.logs.compare.detectors import watchdogs
from diagnosis.kinds.logs.decide import attempts
from diagnosis.kinds.stacks.blame import stack_cause
from diagnosis.kinds.stacks.ranks import waits
from diagnosis.model import JobHints
from diagnosis.pipeline import diagnose
from diagnosis.records.result import LogDiagnosis, Verdict
from tests.diagnosis.synthetic import Job, read_files
from tests.diagnosis.test_log_engine import fallen_gpu

HEAD = "[PG ID 1 PG GUID 7(default_pg) Rank {r}] "
WORK = (
    "Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={s}, OpType={o}, NumelIn=4, NumelOut=4, Timeout(ms)=600000)"
)
LAST = "Timeout at NCCL work: {s}, last enqueued NCCL work: {e}, last completed NCCL work: {c}."


def lines(**odd: dict[str, object]) -> list[tuple[str, int | None, str | None]]:
    """Eight ranks in one group that wait in number 90; ``odd`` changes some (``r3={...}``)."""
    out: list[tuple[str, int | None, str | None]] = []
    for rank in range(8):
        said = {"s": 90, "o": "ALLREDUCE", "e": 92, "c": 89} | odd.get(f"r{rank}", {})
        if said.get("silent"):
            continue
        head = f"[rank{rank}]: {HEAD.format(r=rank)}"
        out += [(head + text.format(**said), rank, f"n{rank // 2}") for text in (WORK, LAST)]
    return out


NODES: dict[int, str | None] = {rank: f"n{rank // 2}" for rank in range(8)}


def clues(**odd: dict[str, object]) -> list[tuple[str, str, str]]:
    """Node, the first words and the category of each clue."""
    found = watchdogs.suspicions(watchdogs.read(lines(**odd)), NODES)
    return [(clue.node, " ".join(clue.reason.split()[:4]), clue.tells) for clue in found]


def test_ranks_that_agree_are_not_suspected() -> None:
    assert clues() == []


def test_the_rank_behind_the_one_that_never_entered_and_the_one_that_called_something_else_are_distinguished() -> None:
    assert clues(r3={"s": 88, "e": 92, "c": 87}) == [("n1", "rank 3 is behind", "")]
    assert clues(r3={"s": 88, "e": 80, "c": 80}) == [("n1", "rank 3 never entered", "")]
    assert clues(r5={"o": "BROADCAST"}) == [("n2", "rank 5 called BROADCAST", watchdogs.MISMATCH)]


def test_the_rank_that_reports_nothing_is_the_silent_one() -> None:
    assert clues(r6={"silent": True}) == [("n3", "rank 6 did not", "")]


def test_half_of_a_group_behind_accuses_nobody() -> None:
    assert clues(**{f"r{r}": {"s": 88, "c": 87} for r in range(4)}) == []


def test_agreement_of_two_kinds_of_evidence_outranks_one_loud_kind() -> None:
    fused = joined_suspects.fuse(
        [
            Suspect("n1", "node", 0.75, ("logs",), ("said so",)),
            Suspect("n2", "node", 0.6, ("logs",), ("log",)),
            Suspect("n2", "node", 0.6, ("stacks",), ("stack",)),
        ]
    )
    assert [s.entity for s in fused] == ["n2", "n1"]
    assert fused[0].sources == ("logs", "stacks") and fused[0].reasons == ("log", "stack")
    assert 0.6 < fused[0].score < 1


def test_two_hints_that_only_rank_may_together_accuse() -> None:
    weak = [Suspect("n1", "node", 0.4, (source,), (), is_suspect=False) for source in ("logs", "stacks")]
    assert joined_suspects.fuse(weak)[0].is_suspect
    assert not joined_suspects.fuse(weak[:1])[0].is_suspect


def test_nodes_below_one_switch_name_the_switch() -> None:
    leaf = {f"n{i}": f"leaf-{i // 4}" for i in range(8)}
    assert shared_leaf(["n0", "n1", "n2"], leaf) == "leaf-0"
    assert shared_leaf(["n0", "n4"], leaf) is None
    assert shared_leaf(["n0"], leaf) is None


def test_directories_of_launches_are_attempts_and_restarts_of_one_agent_are_not() -> None:
    assert attempts.launch_numbers(["attempt-1/logs/n0.log", "attempt-2/logs/n0.log"]) == {
        "attempt-1/logs/n0.log": 1,
        "attempt-2/logs/n0.log": 2,
    }
    assert attempts.launch_numbers(["n0/attempt_0/3/stderr.log", "n0/attempt_1/3/stderr.log"]) == {}
    assert attempts.launch_numbers(["logs/n0.log"]) == {}


def launches(folder: Path, *jobs: Job) -> dict[str, Any]:
    """The report of jobs that are launches of one."""
    files = {}
    for number, job in enumerate(jobs):
        files |= {f"attempt-{number}/{path}": data for path, data in job.files().items()}
    parsed, read = read_files(files, folder)
    return report.to_json(diagnose(parsed, job=JobHints(), read=read))


def test_the_last_launch_that_failed_is_reported_unless_the_last_one_completed(tmp_path: Path) -> None:
    first, second, third = fallen_gpu(), Job(), Job(iterations=20).completes()
    second.say(
        second.ends + 1, 5, "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python3, GPU has fallen off the bus."
    )
    second.torn_down(second.ends + 5)
    told = launches(tmp_path / "failed", first, second)
    assert [a["outcome"] for a in told["job"]["attempts"]] == ["failed", "failed"]
    assert told["logs"]["attempt"] == 1
    assert [n["node"] for n in told["logs"]["nodes"] if n["suspect"]] == ["gpu-0005"]
    told = launches(tmp_path / "completed", first, second, third)
    assert [a["outcome"] for a in told["job"]["attempts"]] == ["failed", "failed", "succeeded"]
    assert told["logs"]["attempt"] == 2
    assert told["conclusion"]["condition"] == "recovered"


def test_nothing_to_read_is_reported_and_not_raised(tmp_path: Path) -> None:
    parsed, read = read_files({"a.log": b"", "b.bin": b"\x7fELF\x02\x01" + bytes(400)}, tmp_path)
    told = report.to_json(diagnose(parsed, job=JobHints(), read=read))
    assert "logs" not in told and told["suspects"] == []
    assert any("b.bin" in m for m in told["missing"])


def test_what_the_suspects_stacks_do_names_a_cause_that_the_logs_leave_open_and_no_other() -> None:
    verdict = Verdict("unknown", "unknown", "unknown", 0.3)
    logs = LogDiagnosis(
        is_failure=True, outcome="failed", verdict=verdict, symptom="hang", stage="training", iteration=4
    )
    groups = [
        {"ranks": [0, 1, 2], "what": "in a collective"},
        {"ranks": [3], "what": "waiting for its data loader"},
        {"ranks": [4], "what": "reading or writing a checkpoint"},
    ]
    told = logs_or_stacks.with_stacks(logs, stacks.finding_of({"suspect_ranks": [3], "groups": groups, "reason": "…"}))
    assert told.verdict.id == "framework.dataloader"
    assert (
        logs_or_stacks.with_stacks(logs, stacks.finding_of({"suspect_ranks": [0], "groups": groups})).verdict == verdict
    )
    known = replace(logs, verdict=replace(verdict, id="hardware.gpu.ecc"))
    assert logs_or_stacks.with_stacks(known, stacks.finding_of({"suspect_ranks": [3], "groups": groups})) == known


def test_every_cause_that_stacks_tell_is_one_of_their_labels_and_of_the_tree() -> None:
    assert set(stack_cause.CAUSE_OF_WORDS) <= {label for label, _, _ in waits._HOST_WORK}
    assert all(
        taxonomy.load().get(c).id == c
        for c in [*stack_cause.CAUSE_OF_WORDS.values(), *stack_cause.CAUSE_OF_ACTIVITY.values()]
    )


def test_suspects_stand_in_the_order_of_their_scores_and_whoever_is_accused_has_more() -> None:
    ranked = joined_suspects.fuse(
        [Suspect("a", "node", 0.5, ("flows",)), Suspect("b", "node", 0.9, ("logs",), is_suspect=False)]
    )
    assert [(s.entity, s.is_suspect) for s in ranked] == [("a", True), ("b", False)]
    assert ranked[0].score >= 0.5 > ranked[1].score


def test_what_was_reported_of_the_outcome_stands_next_to_what_the_logs_show(tmp_path: Path) -> None:
    job = fallen_gpu()
    parsed, read = read_files(job.files(), tmp_path)
    told = report.to_json(diagnose(parsed, job=replace(job.hints(), outcome="succeeded"), read=read))
    assert told["headline"].startswith("Reported as succeeded, but the logs show a failure: ")
    assert told["job"]["said_outcome"] == "succeeded"


def test_a_silent_member_counts_only_if_the_job_hangs() -> None:
    verdict = Verdict("unknown", "unknown", "unknown", 0.0, None)
    hung = LogDiagnosis(
        is_failure=True, outcome="failed", verdict=verdict, symptom="hang", stage="training", iteration=4
    )
    owing = FlowFinding(suspects=(Suspect("n3", "node", 0.6, ("flows",), ("owes",), how="ceased"),))
    (suspect,) = joined_suspects.of_flows(owing, hung)
    assert (suspect.entity, suspect.score, suspect.is_suspect) == ("n3", 0.6, True)
    assert joined_suspects.of_flows(owing, replace(hung, symptom="crash")) == []
    assert joined_suspects.of_flows(owing, None) == []
