"""Schedulers and launchers: how they start a job, what they say of a process that died, and how they end a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.exams.sealed.common.scheduler import Scheduler

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

SIGNALS = {-9: "SIGKILL", -11: "SIGSEGV", -6: "SIGABRT", -7: "SIGBUS", -15: "SIGTERM"}
_WORDS = {-9: "Killed", -11: "Segmentation fault", -6: "Aborted", -7: "Bus error", -15: "Terminated"}
#: What shells say in other languages.
_LOCAL = {
    "de": {"Killed": "Getötet", "Segmentation fault": "Speicherzugriffsfehler", "Aborted": "Abgebrochen"},
    "fr": {"Killed": "Processus arrêté", "Segmentation fault": "Erreur de segmentation", "Aborted": "Abandon"},
    "ja": {"Killed": "強制終了", "Segmentation fault": "Segmentation fault", "Aborted": "中止"},
}


def shell_word(c: Case, code: int) -> str:
    """A signal as the shell of the cluster says it."""
    word = _WORDS.get(code, "Killed")
    return _LOCAL.get(("en", "en", "de", "en", "fr", "ja")[c.dialect % 6], {}).get(word, word)


class Slurm(Scheduler):
    """srun with one task a GPU; its words go to the job's error file, the controller's to its own."""

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        if text.startswith(("srun:", "slurmstepd:", "pyxis:")):
            return f"slurm-{c.job}.err", text
        t, us = c.stamp(None, dt)
        return "slurmctld.log", f"[{t.iso}.{us // 1000:03d}] {text}"

    def launched(self, c: Case) -> None:
        names = ",".join(c.nodes)
        c.ctl(f"sched: Allocate JobId={c.job} NodeList={names} #CPUs={96 * len(c.nodes)} Partition=train")
        c.ctl(f"srun: job {c.job} has been allocated resources", dt=0.1)
        if c.dialect % 2:
            c.ctl("pyxis: importing docker image: registry.hpc/ml/train:25.09", dt=2)
            c.ctl("pyxis: imported docker image: registry.hpc/ml/train:25.09", dt=9)
        c.wait(6, 30)

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        how = f"Exited with exit code {code}" if code >= 0 else shell_word(c, code)
        if code < 0:
            how += " (core dumped)" if code in (-11, -6, -7) else ""
        c.ctl(f"srun: error: {c.host(rank)}: task {rank}: {how}", role, tid, dt=0.4)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        t, _ = c.stamp(None, 0)
        head = f"slurmstepd: error: *** STEP {c.job}.0 ON {c.nodes[0]} CANCELLED AT {t.iso}"
        match how:
            case "done":
                c.ctl(f"_job_complete: JobId={c.job} WEXITSTATUS 0", dt=1)
                c.ctl(f"_job_complete: JobId={c.job} done", dt=1)
            case "fail":
                c.ctl(f"srun: Terminating StepId={c.job}.0", role, tid)
                c.ctl(f"{head} ***", role, f"{tid}2", dt=0.2)
                c.ctl(f"_job_complete: JobId={c.job} WEXITSTATUS 1", dt=4)
            case "cancel":
                uid = 30_000 + len(c.user)
                c.ctl(f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={c.job} uid {uid}", role, tid)
                c.ctl(f"{head} ***", role, f"{tid}2", dt=0.2)
                c.ctl("srun: Job step aborted: Waiting up to 62 seconds for job step to finish.", "context", "", 0.3)
            case "limit":
                c.ctl(f"Time limit exhausted for JobId={c.job}", role, tid)
                c.ctl(f"{head} DUE TO TIME LIMIT ***", role, f"{tid}2", dt=0.2)
            case "preempt":
                c.ctl(
                    f"preempted JobId={c.job} has been requeued to reclaim resources for JobId={c.dialect}77", role, tid
                )
                c.ctl(f"{head} DUE TO PREEMPTION ***", role, f"{tid}2", dt=0.2)
            case "lost":
                c.ctl(f"error: Nodes {c.victim} not responding, setting DOWN", role, tid)
                c.ctl(f"Killing JobId={c.job} on failed node {c.victim}", role, f"{tid}2", dt=0.2)
                c.ctl(f"{head} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***", "secondary", f"{tid}3", 0.4)


class Lsf(Scheduler):
    """blaunch; the report stands at the end of the job's output."""

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        return f"lsf.{c.job}.out", text

    def launched(self, c: Case) -> None:
        c.ctl(f"Job <{c.job}> is submitted to queue <gpu_long>.")
        c.ctl(f"<<Starting on {c.nodes[0]}>>", dt=3)
        c.ctl(f"Using hosts: {' '.join(f'{n}*{c.per}' for n in c.nodes)}", dt=3.1)
        c.wait(6, 30)

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        host = c.host(rank)
        how = f"Exit {code}" if code >= 0 else f"Killed by signal {-code}"
        c.ctl(f"Remote task on host <{host}> ended: {how}.", role, tid, dt=0.5)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        if how == "lost":
            c.ctl(f"Host <{c.victim}> is unreachable: sbatchd has not answered for 300 seconds.", role, f"{tid}0")
        text = {
            "done": "Successfully completed.",
            "fail": "Exited with exit code 1.",
            "cancel": "TERM_OWNER: job killed by owner.",
            "limit": "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
            "preempt": "TERM_PREEMPT: job killed after preemption by a job of queue <gpu_urgent>.",
            "lost": "TERM_UNKNOWN: LSF cannot determine a termination reason--0 is logged but "
            "TERM_UNKNOWN is displayed",
        }[how]
        c.ctl("------------------------------------------------------------", dt=3)
        t, _ = c.stamp(None, 3)
        c.ctl(f"Sender: LSF System <lsfadmin@{c.nodes[0]}>", dt=3)
        c.ctl(f"Subject: Job {c.job}: <{c.run}> in cluster <atlas> {'Done' if how == 'done' else 'Exited'}", dt=3)
        c.ctl(f"Terminated at {t.weekday} {t.month} {t.day:2d} {t.time} {t.year}", dt=3)
        has_role = how not in ("done",)
        c.ctl(text, ("secondary" if how == "lost" else role) if has_role else "", tid if has_role else "", dt=3)
        c.ctl("Resource usage summary:", dt=3)
        c.ctl(f"    CPU time :               {c.now * 31:.2f} sec.", dt=3)
        c.ctl(f"    Max Memory :             {c.dialect + 400} GB", dt=3)


class Mpirun(Scheduler):
    """OpenMPI with a host file; everything stands in one file."""

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        return f"{c.run}.mpirun.{c.job}", text

    def launched(self, c: Case) -> None:
        c.ctl("======================   ALLOCATED NODES   ======================")
        for name in c.nodes:
            c.ctl(f"\t{name}: slots={c.per} max_slots=0 slots_inuse=0 state=UP")
        c.ctl("=================================================================")
        c.wait(2, 6)

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        c.ctl("-" * 74, dt=0.5)
        where = f"with PID {c.pids[rank]} on node {c.host(rank)}"
        if code < 0:
            word = _WORDS.get(code, "Killed")
            text = f"mpirun noticed that process rank {rank} {where} exited on signal {-code} ({word})."
            c.ctl(text, role, tid, dt=0.5)
        else:
            c.ctl("mpirun detected that one or more processes exited with non-zero status, thus causing", dt=0.5)
            c.ctl("the job to be terminated. The first process to do so was:", dt=0.5)
            c.ctl(f"  Process name: [[{c.dialect + 9000},1],{rank}] {where}", role, tid, dt=0.5)
            c.ctl(f"  Exit code:    {code}", "context", "", dt=0.5)
        c.ctl("-" * 74, dt=0.5)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        match how:
            case "cancel":
                c.ctl("^Cmpirun: abort is already in progress...hit ctrl-c again to forcibly terminate", role, tid)
            case "lost":
                c.ctl("ORTE has lost communication with a remote daemon.", role, tid)
                c.ctl(f"  HNP daemon   : [[{c.dialect + 9000},0],0] on node {c.nodes[c.w]}", "context")
                c.ctl(f"  Remote daemon: [[{c.dialect + 9000},0],{c.v}] on node {c.victim}", role, f"{tid}2")
            case "limit" | "preempt":
                c.ctl("mpirun: Forwarding signal 15 to job", "secondary", f"{tid}0")
                c.ctl(
                    "wrapper: wall clock limit of the reservation reached, stopping the job"
                    if how == "limit"
                    else "wrapper: reservation taken over by a job of higher priority, stopping the job",
                    role,
                    tid,
                )
            case "done":
                c.ctl("wrapper: mpirun returned 0")
            case _:
                c.ctl("wrapper: mpirun returned 1", role, tid, dt=2)
