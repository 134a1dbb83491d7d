"""Lines that one machine prints and no machine is at fault for: what their words are about lies elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnosis.kinds.logs.decide import verdict
from diagnosis.kinds.logs.meaning.signatures import parse
from diagnosis.kinds.logs.meaning.signatures.validate import validate
from diagnosis.records.result import LogDiagnosis
from tests.diagnosis.cases import case_of, case_of_files
from tests.diagnosis.synthetic import Job

PORT_DOWN = "kernel: mlx5_core 0000:9a:00.0 ens1f0np0: Link down"


def said_by(work: Path, *told: tuple[float, int, str]) -> LogDiagnosis:
    """Sixteen machines that train; some of them say something so many seconds after the last iteration."""
    job = Job(nodes=16, iterations=12)
    for seconds, node, text in told:
        job.say(job.ends + seconds, node, text)
    return verdict.conclude(case_of(job.torn_down(job.ends + 60), work))


def accused(found: LogDiagnosis) -> list[str]:
    return [node.node for node in found.nodes if node.is_suspect]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("AssertionError: document 593 of shard 93: token id 151601 >= vocab size 128256", "user.data.invalid"),
        ("OSError: [Errno 98] Address already in use: could not listen on 10.0.0.9:29577", "framework.rendezvous"),
        ("socket.gaierror: [Errno -2] Name or service not known", "framework.rendezvous"),
    ],
)
def test_a_line_about_something_that_all_machines_share_ranks_its_machine_and_accuses_nobody(
    text: str, category: str, tmp_path: Path
) -> None:
    found = said_by(tmp_path, (20, 5, f"[rank10]: {text}"))
    assert found.verdict.id == category
    assert accused(found) == []


def test_a_name_that_no_machine_resolves_accuses_not_the_machine_of_that_name(tmp_path: Path) -> None:
    job = Job(nodes=16, iterations=0, cut={0: 1.0})
    job.all_say(60, "[rank9]: socket.gaierror: [Errno -2] Name or service not known", but=(0,))
    assert accused(verdict.conclude(case_of(job.torn_down(90, but=(0,)), tmp_path))) == []


def test_several_machines_that_miss_others_show_a_path_and_accuse_none_of_them(tmp_path: Path) -> None:
    text = (
        "gpu-00{0:02d}:97:98 [7] p2p.cc:511 NCCL WARN NET/IB: Got completion from peer 10.1.0.{1}<41000> with status=12"
    )
    found = said_by(tmp_path, *((20 + n, n, text.format(n, 90 + n)) for n in (2, 5, 9)))
    assert found.verdict.id == "network.rdma_timeout"
    assert accused(found) == []


def test_a_port_that_goes_down_alone_accuses_its_machine(tmp_path: Path) -> None:
    found = said_by(tmp_path, (20, 5, PORT_DOWN))
    assert found.verdict.id == "hardware.network.link_flap"
    assert accused(found) == ["gpu-0005"]


def test_a_rule_may_accuse_others_than_its_category_and_nothing_else() -> None:
    text = """[[signature]]
id = "acme.dns"
title = "The name service is away"
role = "root"
category = "framework.rendezvous"
blames = "{}"
pattern = "acme name service is away"
advice = "Wait."
source = "Acme"
example = "acme name service is away"
counter = "acme name service is here"
"""
    good, bad = (parse(text.format(blames))[0] for blames in ("nobody", "the weather"))
    assert validate(good) == []
    assert "must be one of machine, program, nobody" in validate(bad)[0]


def test_a_quota_is_an_accounts_though_one_machine_alone_meets_it(tmp_path: Path) -> None:
    found = said_by(tmp_path, (20, 5, "[rank10]: OSError: [Errno 122] Disk quota exceeded: '/lustre/x/step9'"))
    assert found.verdict.id == "platform.storage.quota"
    assert accused(found) == []


def test_machines_that_fall_silent_behind_a_failed_switch_are_not_accused(tmp_path: Path) -> None:
    job = Job(nodes=16, iterations=12)
    job.cut = {5: job.ends - 60}
    job.say(job.ends + 1, None, "leaf02 %SYS-5-RELOAD: Reload requested by watchdog. Reload reason: heartbeat lost")
    found = verdict.conclude(case_of(job.timed_out(job.ends + 600, but=(5,)), tmp_path))
    assert found.verdict.id == "network.link_down"
    assert accused(found) == []


def test_machines_below_one_switch_that_miss_others_are_not_accused(tmp_path: Path) -> None:
    rows = [{"name": f"cn{n}", "leaf": f"leaf-{n // 4}"} for n in range(8)]
    missed = "[0] transport/net_ib.cc:1 NCCL WARN NET/IB: Got completion with status=12 IBV_WC_RETRY_EXC_ERR"
    lines = {
        n: [f"2026-03-01 08:00:{s:02d} step {s} loss 2.1" for s in range(20)]
        + ([f"2026-03-01 08:00:2{n} cn{n}:1:2 {missed}"] if n < 4 else [])
        for n in range(8)
    }
    files = {f"logs/cn{n}.log": text for n, text in lines.items()} | {"job.json": [json.dumps({"nodes": rows})]}
    found = verdict.conclude(case_of_files(tmp_path, files))
    assert ([c.entity for c in found.culprits], accused(found)) == (["leaf-0"], [])


def test_the_name_that_machines_begin_with_is_the_jobs(tmp_path: Path) -> None:
    """Its scheduler's file is called like the job, and so begin the names of its pods."""
    files = {f"pods/run7a-worker-{n}/train.log": [f"2026-03-01 08:00:0{n} ready"] for n in range(4)}
    case = case_of_files(tmp_path, files | {"dlc/run7a.events": ["2026-03-01 08:01:00 [WARN] job run7a: Failed"]})
    assert case.catalogue.nodes == tuple(f"run7a-worker-{n}" for n in range(4))
