"""Courses in which scheduler, containers or shared storage are at fault, or somebody ends the job."""

from __future__ import annotations

from lab.exams.sealed.common.case import ROOT, SECOND, Case
from lab.exams.sealed.second import peers
from lab.exams.sealed.second.courses.base import ALL, PODS, SLURM, TORCH, Found, quiet, ranks_of, start

FOUND = Found()


@FOUND.course(ALL)
def higher_priority(c: Case) -> None:
    start(c, save=12)
    c.mark()
    c.closed("preempt", ROOT, "preempt")
    c.wait(1, 3)
    peers.ended(c, c.firsts())
    names_one = c.voice.name in ("clipper", "yunke", "openrlhf")
    if names_one:
        c.gone.add(c.v)
        c.wait(2, 6)
        peers.broken(c, c.some(c.peers(), 2, 12))
    first = [c.v] if names_one else []
    c.blame("platform/preemption", "crash", "training", origin=first, affected=first, outcome="cancelled")


@FOUND.course(ALL)
def no_time_left(c: Case) -> None:
    """The limit is reached amid good iterations."""
    start(c, 50, 120, save=20)
    c.mark()
    c.closed("limit", ROOT, "limit")
    c.wait(1, 3)
    peers.ended(c, c.firsts())
    c.blame("platform/time_limit", "crash", "training checkpoint_save", outcome="cancelled")


@FOUND.course(SLURM)
def lost_a_rank_long_before_the_limit(c: Case) -> None:
    """A process is killed by signal 9 and nobody notices it; the job stands until its limit ends it."""
    start(c)
    quiet(c, 1.0)
    c.mark()
    c.unit(
        c.v,
        "slurmstepd[41007]",
        f"task {c.vr} ({c.pids[c.vr]}) exited. Killed by signal 9.",
        ROOT,
        "sig9",
    )
    c.dead.add(c.vr)
    c.wait(9_000, 30_000)
    quiet(c, 0.6)
    c.closed("limit", SECOND, "limit")
    c.blame("hardware/process_killed", "hang crash", "training", [c.v], also="hardware/host_oom")


@FOUND.course(PODS, 4, 24)
def image_not_there(c: Case) -> None:
    """One pod's image is not pulled; the others wait for it until their time-out."""
    c.v = max(1, c.v)
    c.voice.launched(c)
    c.gone.add(c.v)
    where = f"pod/{c.victim}"
    image = f"registry.corp.internal/ml/train@sha256:{c.rng.getrandbits(64):016x}"
    for k in range(c.rng.randint(4, 9)):
        c.ctl(
            f'Warning   Failed   {where}   Failed to pull image "{image}": rpc error: code = '
            "Unknown desc = failed to copy: httpReadSeeker: unexpected EOF",
            ROOT,
            "pull",
            40.0 * k,
        )
        c.ctl(f"Warning   Failed   {where}   Error: ImagePullBackOff", ROOT, "backoff", 40.0 * k + 12)
    for k in range(len(c.nodes)):
        if k != c.v:
            c.log(
                k * c.per,
                f"rank {k * c.per} on {c.nodes[k]} ({c.ips[k]}): waiting for {len(c.nodes)} machines",
                dt=c.rng.random(),
            )
    c.now += 900
    quiet(c, 0.2)
    for r in c.firsts()[: 1 + len(c.nodes) // 2]:
        c.trace(
            r,
            (
                "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for "
                f"clients. {len(c.nodes) - 1}/{len(c.nodes)} clients joined.",
            ),
            SECOND,
            "store",
            "init",
            c.rng.random(),
        )
    c.died(c.firsts()[0], 1)
    c.closed("fail")
    c.blame("platform/image_pull", "launch_failure", "launch rendezvous", [c.v])


@FOUND.course(("lingua", "clipper", "yunke", "tessera", "trl_lsf"))
def no_devices_in_the_container(c: Case) -> None:
    """The container of one machine was given no device."""
    c.voice.launched(c)
    for k in range(len(c.nodes)):
        if k != c.v:
            c.log(
                k * c.per,
                f"rank {k * c.per} on {c.nodes[k]} ({c.ips[k]}): {c.per} devices, waiting for peers",
                dt=c.rng.random(),
            )
    if c.rng.random() < 0.5:
        c.unit(
            c.v,
            "nvidia-container-cli[4411]",
            "initialization error: nvml error: driver not loaded, container is started without devices",
            ROOT,
            "cli",
            -5,
        )
    for r in ranks_of(c, c.v):
        c.trace(r, ("RuntimeError: No CUDA GPUs are available",), ROOT, "none", "device", c.rng.random())
    quiet(c, 0.2)
    c.wait(1, 4)
    c.died(c.vr, 1)
    peers.ended(c, [r for r in c.firsts() if c.node(r) != c.v])
    c.closed("fail")
    c.blame("platform/device_alloc", "launch_failure", "model_build launch rendezvous", [c.v])


@FOUND.course(("lingua", "bmtrain", "primus", "trl_lsf", "tessera", "smp_hyperpod", "fleetx"))
def share_of_the_group_used_up(c: Case) -> None:
    start(c, 20, 60, save=10)
    c.voice.save(c, True)
    c.mark()
    c.wait(5, 20)
    for r in c.some(c.alive(), 3, 40):
        c.trace(
            r,
            (f"OSError: [Errno 122] Disk quota exceeded: '/lustre/{c.user}/{c.run}/{c.n}/__{r}_0.distcp'",),
            ROOT,
            "edquot",
            "save",
            c.rng.uniform(0, 5),
        )
    c.now += 6
    c.died(c.rng.choice(c.alive()), 1)
    c.closed("fail")
    c.blame("platform/storage_quota", "crash", "checkpoint_save training")


@FOUND.course((*SLURM, "bmtrain", "trl_lsf"))
def lustre_stands_still(c: Case) -> None:
    """The shared file system loses its servers: reads hang on all machines until the peers' time-out."""
    start(c)
    c.mark()
    ost = f"{c.run.split('-', maxsplit=1)[0]}-OST{c.dialect:04x}"
    for k in c.some(range(len(c.nodes)), 3, 40):
        c.kern(
            k,
            f"Lustre: {c.dialect + 1000}:0:(client.c:2289:ptlrpc_expire_one_request()) @@@ "
            "Request sent has timed out for slow reply: [sent 1757/real 1757] "
            f"req@00000000{c.pids[0]:x} x17{c.n}/t0(0) o3->{ost}-osc-ffff@10.9.0.4@o2ib:6/4",
            ROOT,
            "expire",
            c.rng.uniform(0, 40),
        )
        c.kern(
            k,
            f"Lustre: {ost}-osc-ffff: Connection to {ost} (at 10.9.0.4@o2ib) was lost; in "
            "progress operations using this service will wait for "
            "recovery to complete",
            ROOT,
            "lost",
            41 + c.rng.uniform(0, 9),
        )
    c.now += 60
    waiting = c.some(c.alive(), 4, 60)
    peers.timeout(c, waiting)
    c.died(waiting[0], -6)
    c.closed("fail")
    c.blame("platform/storage_outage", "hang crash", "training")


@FOUND.course(("axlearn", "tessera", "clipper", "lingua", "openrlhf"))
def object_store_never_recovers(c: Case) -> None:
    """The object store answers 503 while a checkpoint is written; the retries do not help."""
    start(c, 20, 60, save=11)
    c.voice.save(c, True)
    c.mark()
    who = c.some(c.firsts(), 2, 16)
    words = (
        (
            "503 SlowDown (Please reduce your request rate.)",
            "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the UploadPart operation "
            "(reached max retries: 6): Please reduce your request rate.",
        ),
        (
            "503 Backend Error",
            "google.api_core.exceptions.RetryError: Timeout of 120.0s exceeded, last exception: 503 PUT "
            "https://storage.googleapis.com/upload: Backend Error",
        ),
        (
            "ConnectTimeoutError(port=9000)",
            "urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(host='minio.store', port=9000): "
            "Max retries exceeded with "
            "url: /ckpt (Caused by ConnectTimeoutError: timed out)",
        ),
    )[c.variant % 3]
    for k in range(1, 7):
        for r in who:
            c.log(
                r,
                f"upload part {r * 13 + k}: {words[0]}, attempt {k}/6, next in {2**k}s",
                "W",
                ROOT,
                "slowdown",
                2.0**k + c.rng.random(),
            )
    c.now += 70
    for r in who:
        c.trace(
            r,
            (words[1],),
            ROOT,
            "client",
            "save",
            c.rng.random(),
        )
    c.wait(2, 4)
    c.died(who[0], 1)
    c.closed("fail")
    c.blame("platform/storage_outage", "crash", "checkpoint_save training")


@FOUND.course(("lingua", "primus", "tessera", "smp_hyperpod"))
def prolog_fails(c: Case) -> None:
    """The scheduler cannot start the step on one machine."""
    c.v = max(1, c.v)
    c.ctl(f"sched: Allocate JobId={c.job} NodeList={','.join(c.nodes)} #CPUs={96 * len(c.nodes)} Partition=train")
    c.wait(3, 9)
    c.ctl(
        f"error: validate_node_specs: Prolog or job env setup failure on node {c.victim}, draining the node",
        ROOT,
        "prolog",
    )
    c.ctl(f"error: prolog_complete: JobId={c.job} prolog exit status 1:0", ROOT, "status", 0.2)
    for k in range(3):
        c.ctl(
            f"srun: error: Task launch for StepId={c.job}.0 failed on node {c.victim}: Job credential revoked",
            ROOT,
            "launch",
            1 + k,
        )
    c.ctl("srun: error: Application launch failed: Job credential revoked", ROOT, "app", 5)
    quiet(c, 0.9)
    for k in range(len(c.nodes)):
        if k != c.v:
            c.unit(
                k,
                "slurmd[2200]",
                f"launch task StepId={c.job}.0 request from UID:30177 GID:30000 HOST:10.0.0.2 PORT:3{k:04d}",
                dt=k / 30,
            )
    c.now += 8
    c.closed("fail")
    c.blame("platform/scheduler", "launch_failure", "launch", [c.v])


@FOUND.course(("clipper", "yunke", "axlearn"))
def spot_machine_taken_back(c: Case) -> None:
    """The cloud takes one machine back after a notice."""
    start(c, save=12)
    c.mark()
    where = f"pod/{c.victim}"
    if c.voice.name == "axlearn":
        c.ctl(
            f'"msg":"node of pod {c.victim} received a termination notice (preempted by the '
            'cloud)","reason":"SpotReclaimed"',
            ROOT,
            "spot",
        )
        c.ctl(
            f'"msg":"pod {c.victim} is being deleted","reason":"TerminationByKubelet","message":"node shutdown"',
            ROOT,
            "shutdown",
            20,
        )
    else:
        c.ctl(
            f"Warning   SpotInterruption   {where}   Spot interruption warning was triggered, the "
            "machine will be preempted in 2 minutes",
            ROOT,
            "spot",
        )
        c.ctl(f"Normal    TaintManagerEviction   {where}   Marking for deletion Pod {c.victim}", ROOT, "evict", 20)
    c.now += 25
    c.raw(c.v * c.per, "received signal 15, saving nothing, bye", SECOND, "bye")
    c.gone.add(c.v)
    c.wait(10, 30)
    peers.broken(c, c.some(c.peers(), 3, 30), over=20)
    c.wait(20, 30)
    c.closed("fail")
    c.blame("platform/preemption", "crash", "training", affected=[c.v], origin=[c.v], also="hardware/node_lost")


@FOUND.course(TORCH, is_failing=False)
def owner_ends_it(c: Case) -> None:
    """Somebody ends a job that works; what its processes print while they stop means nothing."""
    start(c, 30, 90, save=20)
    c.mark()
    c.closed("cancel", ROOT, "cancel")
    c.wait(1, 3)
    peers.ended(c, c.firsts())
    for r in c.some(c.alive(), 0, 3):
        c.raw(r, "terminate called without an active exception", SECOND, "terminate")
    c.blame("platform/cancelled", "crash", "training", outcome="cancelled")


@FOUND.course(("trl_lsf", "bmtrain", "tessera"), is_failing=False)
def stopped_from_the_keyboard(c: Case) -> None:
    """Ctrl-C, and the tracebacks that it makes."""
    start(c, 20, 60)
    c.mark()
    c.closed("cancel", ROOT, "cancel")
    for r in c.some(c.alive(), 2, 12):
        c.trace(r, ("KeyboardInterrupt",), ROOT, "interrupt", "step", c.rng.uniform(0.3, 1))
    c.blame("platform/cancelled", "crash", "training", outcome="cancelled")
