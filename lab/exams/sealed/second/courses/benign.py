"""Courses without a failure, most of them loud."""

from __future__ import annotations

from lab.exams.sealed.common.case import Case
from lab.exams.sealed.second.courses.base import ALL, CUDA, PODS, SLURM, TORCH, Found, bdf, quiet, start

FOUND = Found(is_failing=False)


def over(c: Case, low: int = 15, high: int = 50) -> None:
    """Some more iterations, a checkpoint, the end."""
    c.train(low, high)
    quiet(c, 0.5)
    c.save()
    c.voice.finish(c)


@FOUND.course()
def full_of_warnings(c: Case) -> None:
    start(c)
    for r in c.some(c.alive(), 3, 30):
        c.log(
            r,
            "FutureWarning: `torch.load` with `weights_only=False` is used; this will change in a future release",
            "W",
        )
        c.log(r, "Error while calling the plugin 'grafana_marks': 401 Unauthorized (ignored)", "W")
    c.evaluate()
    for k in range(6):
        c.log(
            0,
            f"failed to upload event file (attempt {k % 3 + 1}/3): BrokenPipeError: [Errno 32] Broken pipe",
            "W",
            dt=k,
        )
    c.log(0, "event file uploaded", dt=8)
    over(c)


@FOUND.course(TORCH)
def import_that_was_caught(c: Case) -> None:
    c.voice.launched(c)
    for r in c.firsts():
        c.trace(r, ("ModuleNotFoundError: No module named 'transformer_engine'",), "", "", "config", c.rng.random())
        c.log(r, "transformer_engine not available, falling back to the built-in layers", "W", dt=1.5)
    c.voice.boot(c)
    c.train(20, 60)
    over(c)


@FOUND.course(("axlearn", "tessera", "lingua", "openrlhf", "clipper"))
def store_answers_at_last(c: Case) -> None:
    """The object store is overloaded for a while; the retries help."""
    start(c, save=10)
    c.voice.save(c, True)
    for k in range(1, 4):
        for r in c.some(c.firsts(), 2, 9):
            c.log(
                r,
                f"upload part {r + k}: 503 SlowDown (Please reduce your request rate.), attempt {k}/8, next in {2**k}s",
                "W",
                dt=2.0**k,
            )
    c.wait(20, 40)
    c.log(0, "upload part 17: done after 4 attempts")
    c.voice.save(c, False)
    over(c)


@FOUND.course()
def long_evaluations(c: Case) -> None:
    """Long pauses without a step."""
    start(c, 15, 30)
    for _ in range(3):
        c.evaluate()
        c.wait(300, 900)
        c.train(8, 20)
    over(c)


@FOUND.course(("clipper", "yunke"))
def fewer_from_now_on(c: Case) -> None:
    """A planned scale-down: machines leave, the others go on without them."""
    start(c, save=9)
    c.save()
    leaving = c.some(range(1, len(c.nodes)), 1, 2)
    for k in leaving:
        c.ctl(
            f"Normal    ScaleDown   pod/{c.nodes[k]}   requested by {c.user}: {len(c.nodes)} to "
            f"{len(c.nodes) - len(leaving)} machines"
        )
        c.log(k * c.per, "scale-down requested, leaving the group after the checkpoint, exit 0")
    c.gone |= set(leaving)
    c.wait(20, 60)
    c.log(
        0,
        f"membership changed: {len(c.nodes)} -> {len(c.nodes) - len(leaving)} machines, world size "
        f"{c.world - len(leaving) * c.per}, continuing at step {c.n}",
        "W",
    )
    over(c, 30, 60)


@FOUND.course(("lingua", "tessera", "yunke", "primus", "axlearn"))
def loss_spike_recovers(c: Case) -> None:
    """The loss jumps and comes back."""
    start(c, 20, 50)
    c.bump, c.gnorm = 3.1, 22.0
    c.log(0, f"gradient norm 22.{c.dialect:03d} is far above its running mean, clipped", "W")
    c.train(2, 4)
    c.bump, c.gnorm = 0.9, 4.0
    c.train(2, 4)
    c.bump, c.gnorm = 0.0, 1.0
    over(c, 30, 60)


@FOUND.course(("bmtrain",))
def loss_scale_settles(c: Case) -> None:
    """The first iterations overflow until the scale fits, as they always do."""
    c.ready()
    for k in range(5):
        c.raw(0, f"Gradient overflow, scale loss from {1048576 / 2**k:.1f} to {524288 / 2**k:.1f}")
        c.train(1, 2)
    c.train(30, 60)
    over(c)


@FOUND.course((*SLURM, "trl_lsf", "bmtrain"))
def failures_of_other_programs(c: Case) -> None:
    """Other programs on the same machines crash and are killed; the job does not notice."""
    start(c)
    k = c.v
    c.kern(k, "jupyter-lab invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0")
    c.kern(
        k,
        "Memory cgroup out of memory: Killed process 4711 (jupyter-lab) total-vm:91283kB, "
        "anon-rss:8123412kB, task_memcg=/user.slice/user-4011.slice",
    )
    c.kern(c.w, "blender[99121]: segfault at 10 ip 000055d1c0ffee sp 00007ffe error 6 in blender[55d1c0+812000]")
    c.unit(
        c.w,
        "batchd[2200]",
        f"error: *** JOB {int(c.job) + 991 if c.job.isdigit() else 77} ON {c.nodes[c.w]} CANCELLED "
        "DUE TO TIME LIMIT ***",
    )
    c.unit(k, "systemd[1]", "backup-home.service: Main process exited, code=exited, status=1/FAILURE")
    over(c, 30, 60)


@FOUND.course(("lingua", "tessera", "clipper", "yunke"))
def kernels_complain(c: Case) -> None:
    """Corrected errors, harmless faults and messages of a driver, from many machines."""
    start(c)
    for k in c.some(range(len(c.nodes)), 2, 20):
        at = bdf(c, k)
        c.kern(k, f"NVRM: Xid (PCI:{at}): 43, pid=31337, name=dcgm-diag, Ch 00000008")
        c.kern(k, f"pcieport {at[:-3]}:01.0: AER: Correctable error message received from {at}.0", dt=1)
        c.kern(k, "EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)", dt=2)
        c.kern(
            k,
            f"perf: interrupt took too long ({2500 + k} > 2483), lowering kernel.perf_event_max_sample_rate to 79750",
            dt=3,
        )
        c.kern(k, "mlx5_core 0000:5e:00.1 enp94s0f1np1: Link down", dt=-c.now + 2)
    over(c, 30, 60)


@FOUND.course((*SLURM, *PODS))
def again_after_preemption(c: Case) -> None:
    """The job was preempted once and started again from its checkpoint, as it should."""
    start(c, 20, 40, save=8)
    c.closed("preempt", "", "")
    c.again()
    c.ready()
    over(c, 30, 60)


@FOUND.course(ALL)
def still_running(c: Case) -> None:
    """The files were copied while the job ran."""
    start(c, 30, 90, save=14)
    c.evaluate()
    c.train(4, 30)


@FOUND.course(CUDA)
def retries_at_the_start(c: Case) -> None:
    """Machines come up at different times; the first attempts to connect are refused."""
    c.voice.launched(c)
    for r in c.firsts()[1:]:
        for k in range(c.rng.randint(1, 4)):
            t, us = c.stamp(c.node(r), 5.0 * k)
            c.raw(
                r,
                f"[W{t.mmdd} {t.time}.{us:06d} socket.cpp:752] [c10d] The client socket has "
                f"failed to connect to [{c.nodes[0]}]:29500 "
                "(errno: 111 - Connection refused). Retrying.",
                dt=5.0 * k,
            )
    c.wait(25, 40)
    c.voice.boot(c)
    c.train(20, 60)
    over(c)


@FOUND.course(TORCH)
def noisy_ending(c: Case) -> None:
    """All is done; what libraries print while they are torn down looks worse than it is."""
    start(c, 30, 70, save=15)
    c.save()
    c.log(0, f"Training finished after {c.n} steps, exiting")
    c.wait(1, 2)
    for r in c.some(c.alive(), 3, 24):
        c.raw(r, "Exception ignored in: <function _ConnectionBase.__del__ at 0x7f31c0de>")
        c.raw(r, "OSError: [Errno 9] Bad file descriptor", dt=0.01)
        t, us = c.stamp(c.node(r), 0.5)
        c.raw(
            r,
            f"[rank{r}]:[W{t.mmdd} {t.time}.{us:06d}123 ProcessGroupNCCL.cpp:1496] Warning: "
            "WARNING: destroy_process_group() was not called before program "
            "exit, which can leak resources.",
            dt=0.5,
        )
    c.wait(3, 6)
    c.voice.sched.closed(c, "done")
