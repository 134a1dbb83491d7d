"""Courses without a failure: quiet ones, loud ones, and those that survived one."""

from __future__ import annotations

from lab.exams.sealed.common.case import Case
from lab.exams.sealed.third.courses.base import LINUX, NVIDIA, RDMA, TORCH, Found, quiet, run, scare, start_up

FOUND = Found(is_failing=False)


def over(c: Case) -> None:
    """Some more iterations, a checkpoint, the end."""
    c.train(15, 45)
    quiet(c, 0.5)
    c.save()
    c.voice.finish(c)


@FOUND.course()
def plain_sailing(c: Case) -> None:
    run(c, save=12)
    c.evaluate()
    over(c)


@FOUND.course()
def many_small_scares(c: Case) -> None:
    run(c)
    for _ in range(6):
        scare(c)
        c.train(3, 8)
    over(c)


@FOUND.course()
def bucket_after_five_tries(c: Case) -> None:
    run(c)
    c.voice.save(c, True)
    for k in range(1, 5):
        for r in c.some(c.firsts(), 1, 6):
            c.log(r, f"PUT state-{c.n}/{r}: 503 backendError, attempt {k}/6", "W", dt=2.0**k)
    c.wait(40)
    c.log(0, f"PUT state-{c.n}: accepted at the fifth attempt")
    c.voice.save(c, False)
    over(c)


@FOUND.course(("torchft_nomad",))
def replica_leaves_and_returns(c: Case) -> None:
    """A replica falls, the others go on with a smaller quorum, it comes back and heals."""
    run(c)
    c.trace(c.vr, ("RuntimeError: CUDA error: unspecified launch failure",), "", "", "backward")
    c.log(0, f"quorum without replica_{c.v}: {len(c.nodes) - 1} participants, batch discarded", "W", dt=2)
    c.train(10, 20)
    c.log(c.vr, f"replica_{c.v} on {c.victim} rejoins, receives step {c.n} from replica_{c.w}")
    c.log(0, f"quorum of {len(c.nodes)} participants, replica_{c.v} healed", dt=4)
    over(c)


@FOUND.course()
def started_again_and_done(c: Case) -> None:
    """Its resources were taken; it goes on from its checkpoint later and ends well."""
    run(c, save=8)
    c.save()
    c.closed("preempt", "")
    c.again()
    c.ready()
    c.train(20, 50)
    over(c)


@FOUND.course(LINUX)
def memory_corrects_itself(c: Case) -> None:
    run(c)
    for k in range(4):
        c.kern(c.w, f"EDAC i10nm MC1: 1 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#1 (page:0x{k}3f1)")
        c.train(5, 12)
    over(c)


@FOUND.course()
def bad_batch_is_passed_over(c: Case) -> None:
    run(c)
    for k in range(2):
        c.log(0, f"loss is nan at {c.n + 1}: batch passed over ({k + 1} of 10 allowed)", "W")
        c.train(5, 15)
    c.log(0, "loss is finite again for 10 steps, counter of passed batches is reset")
    over(c)


@FOUND.course(LINUX)
def neighbour_out_of_memory(c: Case) -> None:
    """The kernel ends a program of somebody else within its own group."""
    run(c)
    text = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/user.slice/user-4417.slice,task=jupyter-lab,pid=9917,uid=4417"
    )
    c.kern(c.w, text)
    c.kern(c.w, "Memory cgroup out of memory: Killed process 9917 (jupyter-lab) total-vm:18231kB", dt=0.1)
    over(c)


@FOUND.course(RDMA)
def port_blinks_once(c: Case) -> None:
    run(c)
    c.kern(c.w, "mlx5_core 0000:9a:00.0 ens2f0np0: Link down")
    c.kern(c.w, "mlx5_core 0000:9a:00.0 ens2f0np0: Link up", dt=3)
    c.train(1, 1, 3)
    over(c)


@FOUND.course(TORCH)
def import_with_a_substitute(c: Case) -> None:
    c.voice.launched(c)
    for r in c.firsts():
        c.trace(r, ("ImportError: libfused_ce.so: cannot open shared object file",), "", "", "config", c.rng.random())
        c.log(r, "fused loss not usable, the plain one is taken", "W", dt=1.2)
    c.voice.boot(c)
    c.train(30, 60)
    over(c)


@FOUND.course()
def older_state_is_taken(c: Case) -> None:
    """The newest checkpoint cannot be read, the one before can."""
    start_up(c)
    c.log(0, f"state {c.n + 50} fails its checksum, trying the one before", "E")
    c.log(0, f"state {c.n} verified and loaded", dt=20)
    c.train(30, 70)
    over(c)


@FOUND.course()
def compiles_for_a_long_time(c: Case) -> None:
    start_up(c)
    for k in range(1, 9):
        c.log(0, f"compiling, {k * 120} s so far, this can take half an hour", "W", dt=120 * k)
    c.wait(1000)
    c.train(40, 80)
    over(c)


@FOUND.course()
def noise_at_the_end(c: Case) -> None:
    """Everything is done; threads complain while the processes end."""
    run(c)
    c.save()
    c.log(0, self_said(c))
    for r in c.some(c.firsts(), 2, 10):
        c.trace(r, ("RuntimeError: cannot schedule new futures after interpreter shutdown",), "", "", "data", 1)
    c.wait(4)
    c.voice.finish(c)


def self_said(c: Case) -> str:
    """The program's word that it reached its goal."""
    return f"target of {c.n} steps reached, closing"


@FOUND.course()
def good_enough_early(c: Case) -> None:
    """Training ends before its last step because the validation loss no longer falls, as it was asked to."""
    run(c)
    for k in range(3):
        c.evaluate()
        c.log(0, f"validation loss has not improved for {k + 1} of 3 evaluations")
        c.train(8, 20)
    c.log(0, "EarlyStopping: patience is used up, this is a regular end", "W")
    over(c)


@FOUND.course(NVIDIA)
def rehearsed_failures(c: Case) -> None:
    """A check before the start provokes errors on purpose."""
    c.voice.launched(c)
    for r in c.firsts():
        c.log(r, "selftest: injected CUDA error: out of memory, handler reached: PASS", dt=c.rng.random())
        c.log(r, "selftest: injected NCCL timeout after 1 s, abort works: PASS", dt=2 + c.rng.random())
    c.voice.boot(c)
    c.train(40, 80)
    over(c)
