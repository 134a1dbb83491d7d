"""``faultline watch slurm`` against a running site: recorded outputs, and a real Slurm where it is installed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diagnosis.__main__ import main as engine
from faultline import main as command
from faultline.scheduled import Node
from faultline.scheduler import Watcher
from faultline.site import Site
from faultline.slurm import Slurm as Commands
from faultline.slurm import jobs_of, line_of, node_line_of
from ingest import services
from ingest.models import Artifact, Job, Upload
from ingest.services import collecting
from tests.client.followed import evidence
from tests.client.test_slurm_guides import printed
from tests.client.told import told
from tests.docs.guides import ROOT
from tests.patience import PATIENCE_S, WORK_S, wait_for
from triage.serve.children import free_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("token")]


def row(state: str, **more: Any) -> dict[str, Any]:
    return {
        "job_id": 4711,
        "name": "llama",
        "job_state": state,
        "nodes": "c[1-2]",
        "submit_time": 1_700_000_000,
        **more,
    }


class Slurm:
    """Outputs of Slurm's commands."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.nodes = ""
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, command: tuple[str, ...]) -> str:
        self.asked.append(command)
        return json.dumps({"jobs": self.jobs}) if command[0] == "squeue" else self.nodes


@pytest.fixture
def slurm() -> Slurm:
    return Slurm()


@pytest.fixture
def watcher(slurm: Slurm, live_server: Any, token: str, tmp_path: Path) -> Callable[..., Watcher]:
    def make(**more: Any) -> Watcher:
        site = Site(live_server.url, token, retry_for_s=PATIENCE_S)
        return Watcher(site, Commands(slurm), state=tmp_path / "state.json", **more)

    return make


def test_a_job_that_the_site_has_is_told_from_start_to_end(slurm: Slurm, watcher: Callable[..., Watcher]) -> None:
    job = services.job_create(name="4711", slug="4711")
    slurm.jobs = [row("RUNNING", start_time=1_700_000_010), row("RUNNING", job_id=9)]
    watch = watcher()
    assert (watch.tell_changes(), watch.tell_changes()) == (1, 0), (
        "the site does not have job 9, and nothing changed since"
    )
    job.refresh_from_db()
    assert (job.declared_outcome, job.nodes_text, job.started_at.timestamp()) == ("running", "c1\nc2", 1_700_000_010)
    slurm.jobs = [row("NODE_FAIL", exit_code=1, failed_node="c2", start_time=1_700_000_010, end_time=1_700_000_900)]
    slurm.nodes = "NodeName=c2 State=DOWN* Reason=Not responding [slurm@x]\n"
    assert watcher().tell_changes() == 1, "another process continues from the state"
    job.refresh_from_db()
    assert (job.declared_outcome, job.ended_at.timestamp()) == ("failed", 1_700_000_900)
    lines = told()
    assert lines[0].endswith("Z slurmctld: JobId=4711 State=RUNNING Reason=None Restarts=0 NodeList=c[1-2]")
    assert lines[1].endswith("JobId=4711 ended Reason=None Restarts=0 NodeList=c[1-2]: exited on signal 1")
    assert lines[2].endswith("slurmctld: error: Nodes c2 not responding, setting DOWN: Not responding")
    Upload.objects.update(updated_at="2023-01-01T00:00:00Z")
    collecting.streams_close()
    artifact = Artifact.objects.get()
    assert (artifact.path, artifact.state, artifact.lines) == ("scheduler/slurm.log", "parsed", 3)


def test_a_requeue_is_an_attempt(slurm: Slurm, watcher: Callable[..., Watcher]) -> None:
    watch = watcher(is_all=True)
    slurm.jobs = [row("RUNNING")]
    watch.tell_changes()
    # a requeue takes the nodes away, and changes the time of submission
    later = {"restart_cnt": 1, "submit_time": 1_700_000_500}
    slurm.nodes = "NodeName=c2 State=DOWN* Reason=XID 79 [slurm@x]\n"
    slurm.jobs = [row("PENDING", state_reason="BeginTime", nodes="", start_time=6_090_340_885, **later)]
    watch.tell_changes()
    slurm.jobs = [row("RUNNING", **later)]
    watch.tell_changes()
    assert Job.objects.get().name == "llama 4711"
    assert sorted(Upload.objects.values_list("attempt__number", flat=True)) == [0, 1]
    lines = told()
    assert lines[1].endswith("error: Nodes c2 not responding, setting DOWN: XID 79")
    assert lines[2].endswith("JobId=4711 was requeued, NodeList=c[1-2]")
    assert ["State=PENDING" in lines[3], "State=RUNNING" in lines[4]] == [True, True]
    assert all(line.startswith("20") for line in lines)


def test_an_id_that_slurm_uses_again_is_another_job(slurm: Slurm, watcher: Callable[..., Watcher]) -> None:
    watch = watcher(is_all=True)
    slurm.jobs = [row("COMPLETED")]
    watch.tell_changes()
    slurm.jobs = [row("RUNNING", submit_time=1_790_000_000)]
    watch.tell_changes()
    assert set(Job.objects.values_list("slug", flat=True)) == {"4711", "4711-20260921"}


def test_a_repeated_look_after_a_lost_state_doubles_no_line(
    slurm: Slurm, watcher: Callable[..., Watcher], tmp_path: Path
) -> None:
    slurm.jobs = [row("FAILED", exit_code=256, end_time=1_700_000_900)]
    watcher(is_all=True).tell_changes()
    (tmp_path / "state.json").write_text("{")
    watcher(is_all=True).tell_changes()
    assert len(told()) == 1


def test_a_machine_without_slurm_is_told_once(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert command.main(["watch", "slurm", "--once"]) == 0
    assert "Slurm says nothing" in capsys.readouterr().err


def job_of(state: str, **more: Any) -> Any:
    (found,) = jobs_of(json.dumps({"jobs": [row(state, nodes="gpu-[01-02]", **more)]}))
    return found


@pytest.mark.parametrize(
    ("lines", "category", "node"),
    [
        (
            [line_of(job_of("NODE_FAIL"), names_node=True), node_line_of(Node("gpu-02", "DOWN*", "Not responding"))],
            "hardware.host.lost",
            "gpu-02",
        ),
        ([line_of(job_of("NODE_FAIL"))], "hardware.host.lost", None),
        (
            [line_of(job_of("FAILED")), node_line_of(Node("gpu-02", "DOWN", "XID 79 GPU has fallen off the bus"))],
            "hardware.gpu.off_bus",
            "gpu-02",
        ),
        ([line_of(job_of("TIMEOUT"))], "platform.scheduler.time_limit", None),
        ([line_of(job_of("PREEMPTED"))], "platform.scheduler.preemption", None),
        ([line_of(job_of("FAILED", exit_code=768))], "unknown", None),
        ([line_of(job_of("COMPLETED")), node_line_of(Node("gpu-02", "IDLE+DRAIN", "update"))], "none", None),
    ],
)
def test_what_slurm_says_is_evidence_for_the_conclusion(
    lines: list[str], category: str, node: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("gpu-01", "gpu-02"):
        (tmp_path / name).mkdir()
        times = [f"2026-11-22 03:{n // 30:02d}:{2 * n % 60:02d},000" for n in range(200)]
        steps = [f"{at} INFO iteration {n}/1000 loss 2.5\n" for n, at in enumerate(times)]
        (tmp_path / name / "train.log").write_text("".join(steps))
    (tmp_path / "scheduler").mkdir()
    said = [f"2026-11-22T03:07:0{n}.000000Z {line}\n" for n, line in enumerate(lines)]
    (tmp_path / "scheduler" / "slurm.log").write_text("".join(said))
    assert engine([str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["conclusion"]["id"] == category
    assert [suspect["entity"] for suspect in report["suspects"][:1]] == ([node] if node else [])


@pytest.fixture
def real_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A controller and one node on the loopback interface."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    for program in ("slurmctld", "slurmd", "sbatch"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if os.getuid() != 0:
        pytest.skip("slurmd needs root")
    host = socket.gethostname().partition(".")[0]
    ports = [free_port() for _ in range(3)]
    configuration = tmp_path / "slurm.conf"
    (tmp_path / "state").mkdir()
    configuration.write_text(
        f"""ClusterName=loop
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CryptoType=crypto/none
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={tmp_path}/state
SlurmdSpoolDir={tmp_path}/spool.%n
SlurmctldPidFile={tmp_path}/ctld.pid
SlurmdPidFile={tmp_path}/slurmd.%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES State=UP
"""
    )
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    out = (tmp_path / "slurm.out").open("wb")
    daemons = [subprocess.Popen(["slurmctld", "-D", "-c"], stdout=out, stderr=out)]
    try:
        daemons.append(subprocess.Popen(["slurmd", "-D", "-N", "n1"], stdout=out, stderr=out))
        wait_for(lambda: "idle" in said("sinfo", "-h", "-o", "%T"), (tmp_path / "slurm.out").read_text)
        yield tmp_path
    finally:
        for daemon in reversed(daemons):
            daemon.kill()
            daemon.wait()
        for process in Path("/proc").glob("[0-9]*/environ"):  # its steps leave their parents
            with contextlib.suppress(OSError):
                if process.read_bytes().find(f"SLURM_CONF={configuration}\0".encode()) >= 0:
                    os.kill(int(process.parent.name), signal.SIGKILL)
        out.close()


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S).stdout


def test_a_real_slurm_tells_how_its_jobs_end(real_slurm: Path, live_server: Any, token: str) -> None:
    script = real_slurm / "train.sh"
    script.write_text("#!/bin/sh\necho iteration 1\nexit 3\n")
    assert "Submitted batch job 1" in said("sbatch", "-J", "llama", "-o", str(real_slurm / "out.log"), str(script))
    watch = Watcher(Site(live_server.url, token, retry_for_s=PATIENCE_S), Commands(), is_all=True)

    def is_over() -> bool:
        watch.tell_changes()
        return Job.objects.filter(declared_outcome="failed").exists()

    wait_for(is_over, lambda: said("scontrol", "show", "job", "-o"), every_s=1)
    assert Job.objects.get().slug == "1"
    assert "State=FAILED Reason=NonZeroExitCode Restarts=0 NodeList=n1: Exited with exit code 3" in told()[-1]
    script.write_text(f"#!/bin/sh\nsleep {WORK_S}\n")
    said("sbatch", "-J", "long", "-o", "/dev/null", str(script))
    wait_for(lambda: watch.tell_changes() >= 0 and Job.objects.filter(slug="2").exists(), "job 2 runs", every_s=1)
    said("scontrol", "update", "nodename=n1", "state=down", "reason=XID 79")

    def is_told() -> bool:
        watch.tell_changes()
        return any("XID 79" in line for line in told())

    wait_for(is_told, lambda: "\n".join(told()), every_s=1)
    lines = [line for line in told() if "JobId=2" in line or "n1" in line]
    assert any("error: Node n1 went down: XID 79" in line for line in lines)


def test_slurms_own_scancel_loses_neither_the_rest_of_the_output_nor_the_end(
    real_slurm: Path, live_server: Any, token: str
) -> None:
    """The batch script of the guide, as it is printed; its step says its last line when Slurm ends it."""
    (real_slurm / "logs/1").mkdir(parents=True)
    command_line = printed("live", "exec faultline run").replace('"/logs/', f'"{real_slurm}/logs/')
    train, script = real_slurm / "train.sh", real_slurm / "job.sh"
    train.write_text(
        "#!/bin/sh\ntrap 'echo iteration 2 the last line; exit 143' TERM\necho iteration 1\nsleep 1000 & wait\n"
    )
    follower = f'#!/bin/sh\nPYTHONPATH="{ROOT}/client" exec "{sys.executable}" -m faultline "$@"\n'
    (real_slurm / "faultline").write_text(follower)
    for program in (train, real_slurm / "faultline"):
        program.chmod(0o755)
    script.write_text(
        f"#!/bin/sh\nexport PATH={real_slurm}:$PATH FAULTLINE_URL={live_server.url} FAULTLINE_TOKEN={token}\n"
        f"{command_line}"
    )
    said("sbatch", "-J", "llama", "-o", str(real_slurm / "out.log"), "-D", str(real_slurm), str(script))
    wait_for(
        lambda: Upload.objects.filter(path="output.log", offset_bytes__gt=0).exists(),
        lambda: said("scontrol", "show", "job") + (real_slurm / "out.log").read_text(),
    )
    said("scancel", "1")
    wait_for(lambda: Job.objects.filter(declared_outcome="cancelled").exists(), (real_slurm / "out.log").read_text)
    wait_for(lambda: "output.log" in evidence(), "the rest is sent")
    kept = evidence()["output.log"]
    for line in (
        b"iteration 1\n",
        b"iteration 2 the last line\n",
        b"STEP 1.0 ON n1 CANCELLED",
        b"with exit code 143\n",
    ):
        assert line in kept, kept
