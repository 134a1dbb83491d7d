"""Healthy jobs: learning, families, saving, removal, damage."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from diagnosis.history import History, HistoryError, JobEvents
from diagnosis.kinds.logs.meaning import crossjob
from diagnosis.learning import learn
from tests.diagnosis.synthetic import Job, healthy_history, read_files, told


def job(number: int, family: str = "a", framework: str = "megatron", **counts: int) -> JobEvents:
    return JobEvents(f"job-{number}", counts, family, framework, nodes=2, hours=1.0)


def test_learning_counts_masked_messages_and_not_host_names(tmp_path: Path) -> None:
    history = healthy_history(tmp_path)
    counts = history.jobs[0].counts
    assert counts["Training completed"] == 8
    assert not any("gpu-0003" in text for text in counts)
    assert history.jobs[0].nodes == 8 and 0.05 < history.jobs[0].hours < 0.1


def test_a_history_survives_saving_and_keeps_its_digest(tmp_path: Path) -> None:
    history = History((job(1, oops=3), job(2, fine=1)))
    history.save(tmp_path / "history.json")
    loaded = History.load(tmp_path / "history.json")
    assert loaded.digest == history.digest
    assert {j.job_id: dict(j.counts) for j in loaded.jobs} == {"job-1": {"oops": 3}, "job-2": {"fine": 1}}


def test_the_digest_does_not_depend_on_the_order_of_jobs() -> None:
    assert History((job(1, x=1), job(2, y=1))).digest == History((job(2, y=1), job(1, x=1))).digest


def test_the_last_healthy_job_of_a_family_states_what_is_usual_for_it() -> None:
    known = {"network of NCCL": "IB"}
    early, late = (JobEvents(name, {}, "a", ended_at=at, setup=known) for name, at in (("early", 1.0), ("late", 2.0)))
    others = (JobEvents("bare", {}, "a", ended_at=3.0), JobEvents("foreign", {}, "b", ended_at=4.0, setup=known))
    history = History((late, early, *others))
    assert history.last_of("a") == late
    assert history.last_of("a", exclude="late") == early
    assert History.from_json(history.to_json()).last_of("a") == late
    assert history.last_of("c") is None


def test_learning_keeps_the_set_up_that_most_files_state(tmp_path: Path) -> None:
    files = {f"gpu-{n}.log": f"NCCL INFO Using network {'Socket' if n == 2 else 'IB'}\n" for n in range(3)}
    files["gpu-0/pip.txt"] = "numpy==1.26.4\ntorch==2.5.1\n"
    learned = learn(read_files({name: text.encode() for name, text in files.items()}, tmp_path)[0])
    assert learned.setup == {"network of NCCL": "IB", "PyTorch version": "2.5.1", "package numpy": "1.26.4"}


def test_a_job_that_is_added_again_replaces_its_entry() -> None:
    history = History((job(1, x=1), job(2, y=1)))
    assert history.add(job(1, x=5)).jobs[-1].counts == {"x": 5}
    assert len(history.add(job(1, x=5)).jobs) == 2


def test_few_jobs_of_a_family_fall_back_to_the_framework_and_then_to_all() -> None:
    jobs = tuple(job(n, family="a" if n < 2 else "b", framework="megatron" if n < 6 else "nemo", x=1) for n in range(8))
    history = History(jobs)
    assert history.pool("b", "megatron").scope == "family"
    assert (history.pool("a", "megatron").scope, len(history.pool("a", "megatron").jobs)) == ("framework", 6)
    assert (history.pool("", "titan").scope, len(history.pool("", "titan").jobs)) == ("all", 8)
    assert History().pool("a", "b").scope == "none"
    assert "job-3" not in {j.job_id for j in history.pool("b", "", exclude="job-3").jobs}


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"jobs": 1}', '{"format": 99, "jobs": []}', '{"format": 1, "jobs": [{}], "texts": []}']
)
def test_a_damaged_history_is_refused_with_a_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(text)
    with pytest.raises(HistoryError, match=r"history|cannot read"):
        History.load(path)


def test_what_half_of_the_healthy_jobs_print_is_ordinary_and_what_one_survived_weighs_little() -> None:
    pool = History((job(1, usual=5, seldom=1), job(2, usual=4), job(3, usual=6), job(4))).pool("a", "")
    found = crossjob.frequencies({}, pool)
    events = pl.DataFrame({"template": ["usual", "seldom", "new"], "n": [5, 1, 1]})
    weighed = {r["template"]: r for r in crossjob.weigh(events, found, 4, 2.0).iter_rows(named=True)}
    assert weighed["usual"]["is_ordinary"] and weighed["usual"]["novelty"] == 0.0
    assert not weighed["seldom"]["is_ordinary"] and 0 < weighed["seldom"]["novelty"] < 0.5
    assert weighed["new"]["novelty"] == 1.0


def test_a_storm_of_an_ordinary_message_still_counts() -> None:
    pool = History(tuple(job(n, usual=4) for n in range(4))).pool("a", "")
    events = pl.DataFrame({"template": ["usual"], "n": [40_000]})
    row = crossjob.weigh(events, crossjob.frequencies({}, pool), 4, 2.0).row(0, named=True)
    assert not row["is_ordinary"] and row["novelty"] > 0.5


def test_the_file_stays_small_when_jobs_say_the_same(tmp_path: Path) -> None:
    one = History((job(1, **{"a long message that all jobs print " * 3: 1}),))
    many = History(tuple(job(n, **{"a long message that all jobs print " * 3: 1}) for n in range(50)))
    assert len(json.dumps(many.to_json())) < 30 * len(json.dumps(one.to_json()))


def test_an_incomplete_parse_is_learnt_without_trouble(tmp_path: Path) -> None:
    parsed, _ = read_files({"empty.log": b"", "logs/gpu-0001.log": b"hello\n"}, tmp_path)
    assert learn(parsed).counts == {"hello": 1}
    assert Job().name(3) == "gpu-0003"


@pytest.mark.parametrize(
    ("jobs_with_it", "n", "novelty", "is_ordinary"),
    [
        (0, 1, 1.0, False),
        (1, 1, 0.6, False),
        (2, 1, 0.2, False),
        (49, 1, 0.2, False),
        (50, 1, 0.0, True),
        (50, 45, 0.0, True),
        (50, 4_000, 0.7, False),
    ],
)
def test_a_message_weighs_less_the_more_healthy_jobs_print_it_unless_it_storms(
    jobs_with_it: int, n: int, novelty: float, is_ordinary: bool
) -> None:
    events = pl.DataFrame({"template": ["t"], "n": [n]})
    found = pl.DataFrame(
        {"template": ["t"], "jobs_with_it": [jobs_with_it], "top_rate": [2.0]},
        schema={"template": pl.String, "jobs_with_it": pl.UInt32, "top_rate": pl.Float64},
    ).filter(pl.col("jobs_with_it") > 0)
    row = crossjob.weigh(events, found, healthy=100, node_hours=1.0).row(0, named=True)
    assert (row["novelty"], row["is_ordinary"]) == (novelty, is_ordinary)


def version(number: int, name: str, first: int, *, common: int = 18, own: int = 12, **more: int) -> JobEvents:
    """A healthy job that prints ``common`` messages as all versions do, and ``own`` of its version."""
    said = [f"message {n} of all versions" for n in range(common)] + [f"message {n} of {name}" for n in range(own)]
    return job(first + number, **dict.fromkeys(said, 5), **more)


def test_after_an_upgrade_the_jobs_of_the_version_before_do_not_count() -> None:
    before = [version(n, "1.0", 0) for n in range(20)]
    after = [version(n, "2.0", 100) for n in range(3)]
    failed = list(version(0, "2.0", 200, oops=1).counts)
    pool = History((*before, *after)).pool("a", "").similar(failed)
    assert [one.job_id for one in pool.jobs] == ["job-100", "job-101", "job-102"]
    assert pool.left_out == 20
    events = pl.DataFrame({"template": ["message 1 of 2.0", "oops"], "n": [5, 1]})
    weighed = crossjob.weigh(events, crossjob.frequencies({}, pool), len(pool.jobs), 2.0)
    assert weighed["is_ordinary"].to_list() == [True, False]


def test_the_jobs_before_an_upgrade_count_until_enough_healthy_ones_of_the_new_version_are_known() -> None:
    known = History(tuple(version(n, "1.0", 0) for n in range(5)))
    failed = version(0, "2.0", 200).counts
    assert known.pool("a", "").similar(failed).left_out == 0
    for number in range(2):
        known = known.add(version(number, "2.0", 300))
    assert known.pool("a", "").similar(failed).left_out == 0
    known = known.add(version(2, "2.0", 300))
    assert len(known.pool("a", "").similar(failed).jobs) == 3


def test_jobs_of_one_version_differ_and_a_short_log_tells_nothing() -> None:
    pool = History((*(version(n, "1.0", 0, **{f"chance {n}": 1}) for n in range(5)), job(9, hello=1))).pool("a", "")
    assert pool.similar(version(0, "1.0", 200, own=9, oops=1).counts).left_out == 0
    assert pool.similar(["hello", "message 1 of 2.0"]).left_out == 0


def talkative() -> Job:
    one = Job(framework="megatron")
    for part in ("embedding", "attention", "router", "norm", "head", "rotary", "experts", "loss", "optimizer"):
        one.all_say(one.begins, f"INFO built the {part} of the model")
    return one


def test_a_report_says_that_healthy_jobs_print_other_messages(tmp_path: Path) -> None:
    parsed, _ = read_files(talkative().completes().files(), tmp_path / "healthy")
    counts = learn(parsed).counts
    others = {f"{text} of old": count for text, count in counts.items()}
    now = tuple(JobEvents(f"now-{n}", counts, "made-up", "megatron") for n in range(3))
    before = tuple(JobEvents(f"old-{n}", others, "made-up", "megatron") for n in range(5))
    failing = talkative()
    failing.say(failing.ends, 3, "ERROR torch.OutOfMemoryError: CUDA out of memory").torn_down(failing.ends + 1)
    said = " ".join(told(failing, tmp_path, History((*before, *now)))["inferred"])
    assert "(3 jobs of" in said
    assert "5 healthy jobs print other messages" in said
