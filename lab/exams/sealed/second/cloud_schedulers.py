"""Launchers of containers and clouds: Kubernetes operators, Ray, ModelArts, HyperPod, Paddle's launcher, torchrun."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from lab.exams.sealed.common.scheduler import Scheduler
from lab.exams.sealed.second.schedulers import SIGNALS, Slurm, shell_word

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case


def torchrun_died(c: Case, rank: int, code: int, role: str, tid: str) -> None:
    """The elastic agent's report on the machine of a process; its first line has the role."""
    first, (t, us) = c.node(rank) * c.per, c.stamp(c.node(rank), 0.8)
    local, pid = rank % c.per, c.pids[rank]
    where = f"{c.pids[first] - 1} torch/distributed/elastic/multiprocessing/api.py"
    text = f"failed (exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /opt/venv/bin/python3.11"
    others = [r for r in range(first, first + c.per) if r != rank]
    for k, r in enumerate(others[:3]):
        text_k = f"Sending process {c.pids[r]} closing signal SIGTERM"
        c.agent(first, f"W{t.mmdd} {t.time}.{us // 1000:03d}000 {where}:900] {text_k}", "context", "", 0.7 + k / 1e3)
    c.agent(first, f"E{t.mmdd} {t.time}.{us // 1000:03d}000 {where}:874] {text}", role, tid, dt=0.8)
    cause = f"Signal {-code} ({SIGNALS.get(code)}) received by PID {pid}" if code < 0 else "To enable traceback see: "
    cause += "" if code < 0 else "https://pytorch.org/docs/stable/elastic/errors.html"
    for line in (
        *("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "=" * 60),
        *("/workspace/train.py FAILED", "-" * 60, "Failures:", "  <NO_OTHER_FAILURES>", "-" * 60),
        *("Root Cause (first observed failure):", "[0]:", f"  time      : {t.date}_{t.time}"),
        *(f"  host      : {c.host(rank)}", f"  rank      : {rank} (local_rank: {local})"),
        *(f"  exitcode  : {code} (pid: {pid})", "  error_file: <N/A>", f"  traceback : {cause}", "=" * 60),
    ):
        c.agent(first, line, "context", "", 0.9)


class Torchjob(Scheduler):
    """Kubeflow's operator: events, and torchrun in each pod."""

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        t, _ = c.utc(None, dt)
        return "events.txt", f"{t.iso}Z   {text}"

    def job_id(self, rng: random.Random) -> str:
        return f"{rng.getrandbits(32):08x}"

    def launched(self, c: Case) -> None:
        for k, name in enumerate(c.nodes):
            text = f"Normal    Scheduled   pod/{name}   Successfully assigned ml-train/{name} to {self.machine(c, k)}"
            c.ctl(text, dt=k / 50)
            c.ctl(f"Normal    Started     pod/{name}   Started container pytorch", dt=2 + k / 9)
        c.wait(8, 30)

    def machine(self, c: Case, node: int) -> str:
        """The machine below a pod."""
        return f"ip-{c.ips[node].replace('.', '-')}.ec2.internal"

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        torchrun_died(c, rank, code, role, tid)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        job, pod = f"pytorchjob/{c.run}", f"pod/{c.victim}"
        match how:
            case "done":
                c.ctl(f"Normal    PyTorchJobSucceeded   {job}   PyTorchJob {c.run} is successfully completed.")
            case "fail":
                c.ctl(
                    f"Warning   PyTorchJobFailed   {job}   PyTorchJob {c.run} is failed because 1 "
                    "Worker replica(s) failed.",
                    role,
                    tid,
                    dt=4,
                )
            case "cancel":
                c.ctl(f"Normal    SuccessfulDeletePod   {job}   Deleted pod: {c.nodes[0]}", "context")
                c.ctl(f"Normal    Suspended   {job}   PyTorchJob {c.run} is suspended by user {c.user}.", role, tid)
            case "limit":
                c.ctl(f"Warning   DeadlineExceeded   {job}   Job was active longer than specified deadline", role, tid)
            case "preempt":
                c.ctl(
                    f"Warning   Preempted   {pod}   Preempted by pod {c.dialect:03d}e1-4f7a on node "
                    f"{self.machine(c, c.v)}",
                    role,
                    tid,
                )
            case "lost":
                machine = self.machine(c, c.v)
                c.ctl(
                    f"Normal    NodeNotReady   node/{machine}   Node {machine} status is now: NodeNotReady", role, tid
                )
                c.ctl(f"Warning   NodeNotReady   {pod}   Node is not ready", role, f"{tid}2", dt=0.3)


class Volcano(Torchjob):
    """A batch job of Volcano; no agent in the pods."""

    def launched(self, c: Case) -> None:
        c.ctl(f"Normal    Scheduled   podgroup/{c.run}-{c.job}   pod group is ready, minAvailable={len(c.nodes)}")
        for k, name in enumerate(c.nodes):
            c.ctl(f"Normal    Scheduled   pod/{name}   Successfully assigned yunke/{name} to {c.ips[k]}", dt=1 + k / 50)
        c.wait(8, 30)

    def machine(self, c: Case, node: int) -> str:
        return c.ips[node]

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        first = c.node(rank) * c.per
        if code < 0:
            text = f"/opt/run.sh: line 41: {c.pids[rank]} {shell_word(c, code)}   python3 -u train_main.py --rank $RANK"
            c.raw(first, text, role, tid, dt=0.3)
        text = f"container trainer of pod {c.host(rank)} exited with code {code if code >= 0 else 128 - code}"
        c.ctl(f"Warning   ContainerDied   pod/{c.host(rank)}   {text}", "secondary", f"{tid}2", dt=1)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        job = f"vcjob/{c.run}-{c.job}"
        match how:
            case "done":
                c.ctl(f"Normal    ExecuteAction   {job}   Start to execute action CompleteJob, task succeeded")
            case "fail":
                c.ctl(
                    f"Warning   ExecuteAction   {job}   Start to execute action AbortJob on event PodFailed",
                    role,
                    tid,
                    3,
                )
            case "cancel":
                c.ctl(
                    f"Normal    CommandIssued   {job}   Start to execute command AbortJob, and "
                    f"clean it up (user {c.user})",
                    role,
                    tid,
                )
            case "limit":
                c.ctl(
                    f"Warning   ExecuteAction   {job}   job timeout: activeDeadlineSeconds reached, TerminateJob",
                    role,
                    tid,
                )
            case "preempt":
                c.ctl(f"Warning   Evict   pod/{c.victim}   Evicted because of preempt: task of queue urgent", role, tid)
            case "lost":
                c.ctl(f"Warning   NodeNotReady   pod/{c.victim}   Node is not ready: {c.ips[c.v]}", role, tid)
                c.ctl(
                    f"Warning   ExecuteAction   {job}   Start to execute action RestartJob on event PodEvicted",
                    "secondary",
                    f"{tid}2",
                    1,
                )


class Jobset(Scheduler):
    """JobSet on GKE, read from the cloud's log of events."""

    def job_id(self, rng: random.Random) -> str:
        return f"{rng.getrandbits(24):06x}"

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        t, us = c.utc(None, dt)
        return "jobset-controller.log", f'{{"level":"info","ts":"{t.iso}.{us // 1000:03d}Z","logger":"events",{text}}}'

    def launched(self, c: Case) -> None:
        c.ctl(f'"msg":"jobset {c.run}-{c.job} is resumed","reason":"ResumeJobs","replicas":{len(c.nodes)}')
        for k, name in enumerate(c.nodes):
            c.ctl(f'"msg":"pod {name} created for index {k}","reason":"SuccessfulCreate"', dt=0.5 + k / 40)
        c.wait(10, 40)

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        if code < 0:
            text = f"/app/launch.sh: line 12: {c.pids[rank]} {shell_word(c, code)}  python3 -m launch_trainer"
            c.raw(rank, text, role, tid, dt=0.3)
        shown = code if code >= 0 else 128 - code
        told = f'"msg":"pod {c.host(rank)} terminated","reason":"Error","exitCode":{shown}'
        c.ctl(told, role if code >= 0 else "secondary", f"{tid}2", dt=1)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        name = f"{c.run}-{c.job}"
        text = {
            "done": f'"msg":"jobset {name} completed successfully","reason":"AllJobsCompleted"',
            "fail": f'"msg":"jobset {name} failed: job {name}-slice-0 failed","reason":"ReachedMaxRestarts"',
            "cancel": f'"msg":"jobset {name} deleted by {c.user}@corp","reason":"Deleted"',
            "limit": f'"msg":"jobset {name}: job was active longer than specified '
            'deadline","reason":"DeadlineExceeded"',
            "preempt": f'"msg":"workload {name} preempted to accommodate a workload with higher '
            'priority","reason":"Preempted"',
            "lost": f'"msg":"node of pod {c.victim} is unreachable, deleting pod","reason":"TaintManagerEviction"',
        }[how]
        c.ctl(text, "" if how == "done" else role, "" if how == "done" else tid, dt=2)
        if how == "lost":
            c.ctl(
                f'"msg":"jobset {name} restarts, attempt {c.attempt + 1}","reason":"RestartJobSet"',
                "secondary",
                "rs",
                3,
            )


class Ray(Scheduler):
    """A Ray cluster: the driver's output holds the actors' lines, each machine has a raylet."""

    def job_id(self, rng: random.Random) -> str:
        letters = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
        return "raysubmit_" + "".join(rng.choice(letters) for _ in range(16))

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        t, us = c.stamp(None, dt)
        return "session_latest/logs/gcs_server.out", f"[{t.both},{us // 1000:03d} {text}"

    def launched(self, c: Case) -> None:
        for k, name in enumerate(c.nodes):
            text = (
                "I 61 61] (gcs_server) gcs_node_manager.cc:92: Registering node info, address = "
                f"{c.ips[k]}, node name = {name}"
            )
            c.ctl(text, dt=k / 20)
        c.wait(5, 20)

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        actor = f"{c.pids[rank] * 7919:032x}"
        how = f"exit code {code}" if code >= 0 else f"signal {-code} ({SIGNALS.get(code)})"
        told = (
            f"(raylet, ip={c.ips[c.node(rank)]}) A worker died or was killed while executing a "
            "task by an unexpected system error."
        )
        c.add(f"driver-{c.job}.log", f"\x1b[33m{told} Worker PID: {c.pids[rank]}, {how}\x1b[0m", role, tid, 0.6)
        text = f"I 61 61] (gcs_server) gcs_actor_manager.cc:1010: Worker {actor} on node {c.host(rank)} exits"
        c.ctl(f"{text}, type=SYSTEM_ERROR", "secondary", f"{tid}2", dt=0.5)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        driver = f"driver-{c.job}.log"
        match how:
            case "done":
                c.add(driver, f"Job '{c.job}' succeeded", dt=1)
            case "fail":
                c.add(driver, f"Job '{c.job}' failed: driver exited with code 1", role, tid, 2)
            case "cancel":
                c.add(driver, f"Job '{c.job}' was stopped (requested by {c.user})", role, tid, 2)
            case "limit":
                c.add(driver, f"Job '{c.job}': the time budget of the submission is used up, stopping", role, tid, 2)
            case "preempt":
                text = (
                    f"W 61 61] (gcs_server) gcs_autoscaler_state_manager.cc:330: Drain of node {c.victim}: preemption"
                )
                c.ctl(f"{text} by a reservation of higher priority, deadline 30 s", role, tid)
            case "lost":
                text = (
                    "W 61 61] (gcs_server) gcs_health_check_manager.cc:108: Health check failed "
                    f"for node {c.victim}, remaining"
                )
                c.ctl(f"{text} checks 0, status 14", role, tid)
                told = (
                    "W 61 61] (gcs_server) gcs_node_manager.cc:382: Removing node, node name = "
                    f"{c.victim}, death reason ="
                )
                c.ctl(f"{told} UNEXPECTED_TERMINATION", role, f"{tid}2", dt=0.1)


class Modelarts(Scheduler):
    """A managed cloud's job with its agent."""

    def job_id(self, rng: random.Random) -> str:
        return f"modelarts-job-{rng.getrandbits(48):012x}"

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        t, us = c.stamp(None, dt)
        return "ma-agent.log", f"[Modelarts Service Log]{t.both},{us // 1000:03d} - {text}"

    def launched(self, c: Case) -> None:
        c.ctl(f"INFO - job {c.job}: {len(c.nodes)} workers, ranktable v1.1 is complete")
        for k, name in enumerate(c.nodes):
            c.ctl(f"INFO - worker {name} ({c.ips[k]}): training process started", dt=2 + k / 30)
        c.wait(6, 20)

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        how = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
        text = f"ERROR - worker {c.host(rank)}: proc-rank-{rank}-device-{rank % c.per} (pid: {c.pids[rank]}) {how}"
        c.ctl(text, role, tid, dt=0.7)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        text = {
            "done": "INFO - job ends, status Completed",
            "fail": "ERROR - job ends, status Failed, exit code 1",
            "cancel": f"WARNING - job is terminated on request of {c.user}, status Terminated",
            "limit": "WARNING - maximum running duration of the job is reached, status Terminated",
            "preempt": "WARNING - pool quota is taken back for a job of higher priority, status Preempted",
            "lost": f"ERROR - heartbeat of worker {c.victim} lost for 180s, node state unknown",
        }[how]
        c.ctl(text, "" if how == "done" else role, "" if how == "done" else tid, dt=2)


class Hyperpod(Slurm):
    """HyperPod's Slurm with automatic resume, torchrun on each machine."""

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        torchrun_died(c, rank, code, role, tid)
        c.ctl(f"srun: error: {c.host(rank)}: task {c.node(rank)}: Exited with exit code 1", "secondary", "sr", dt=1.6)


class Paddle(Scheduler):
    """Paddle's launcher: a line for the pod of each machine."""

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        t, us = c.stamp(None, dt)
        return f"{c.nodes[0]}/default.{c.job}.log", f"LAUNCH {text.replace('@', f'{t.both},{us // 1000:03d}', 1)}"

    def launched(self, c: Case) -> None:
        c.ctl("INFO @ -----------  Configuration  ----------------------")
        c.ctl(f"INFO @ nnodes: {len(c.nodes)}")
        c.ctl(f"INFO @ Job: {c.job}, mode collective, replicas {len(c.nodes)}, elastic False")
        c.ctl(f"INFO @ peers: {','.join(c.nodes)}", dt=0.2)
        c.wait(4, 12)

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        t, us = c.stamp(c.node(rank), 0.5)
        path = f"{c.host(rank)}/default.{c.job}.log"
        c.add(path, f"LAUNCH INFO {t.both},{us // 1000:03d} Pod failed", "secondary", f"{tid}2", 0.5)
        text = f"LAUNCH ERROR {t.both},{us // 1000:03d} Container failed !!!"
        c.add(path, text, "secondary", f"{tid}3", 0.5)
        told = (
            f"Container rank {rank % c.per} status failed cmd ['/usr/bin/python3', '-u', 'pretrain.py'] code {code} log"
        )
        c.add(path, f"{told} {c.host(rank)}/workerlog.{rank % c.per}", role, tid, 0.5)
        c.add(path, f"LAUNCH INFO {t.both},{us // 1000:03d} Exit code {code}", "context", "", 0.6)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        text = {
            "done": "INFO @ Pod completed",
            "fail": "INFO @ Exit code 1",
            "cancel": f"INFO @ Terminating with signal 2 (sent by {c.user})",
            "limit": "INFO @ Terminating with signal 15: walltime of the queue reached",
            "preempt": "INFO @ Terminating with signal 15: preempted by queue prod-hi",
            "lost": f"WARNING @ peer {c.victim} ({c.ips[c.v]}) keeps no lease for 120s, waiting for it to be back",
        }[how]
        c.ctl(text, "" if how == "done" else role, "" if how == "done" else tid, dt=2)
