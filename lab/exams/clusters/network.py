"""Courses: networks fail, jobs become slow or hang, and jobs that only look bad."""

from __future__ import annotations

from lab.exams.clusters.voices import NVIDIA, PATIENT, PYTHON, TORCH
from lab.exams.clusters.world import Entry, Fresh
from lab.exams.courses.world import Line, Truth


def rack_switch(w: Fresh) -> None:
    """A top-of-rack switch resets; all its machines lose both ports, its own log shows why."""
    w.start()
    w.train(26, save_every=13)
    at, leaf = w.now + 0.4 * w.step_s, w.leaves[w.victim]
    below = [k for k, where in enumerate(w.leaves) if where == leaf]

    def switch(when: float, text: str, tid: str) -> None:
        w.lines.append(Line(when, None, None, "switch", text, "root" if tid else "", tid))

    switch(at - 900, "%SYSMGR-5-CFGWRITE: configuration saved by user automation", "")
    switch(at, "%PLATFORM-2-ASIC_RESET: forwarding ASIC 0 is reset after an uncorrectable parity error", "asic")
    for k, node in enumerate(below):
        text = f"%ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/{k + 1} is down (Link failure)"
        switch(at + 0.1 + 0.01 * k, text, "port")
        for port in "01":
            text = f"mlx5_core 0000:3a:00.{port} ens1f{port}np{port}: Link down"
            w.kernel(at + 0.3 + w.rng.random(), node, text, "root", "link")
    w.over(w.wait_out(at) + 4, first=0)
    w.truth = Truth(
        "network",
        "link_down",
        "hang",
        affected=tuple(below),
        switch=leaf,
        also_symptoms=("crash",),
        also_categories=("hardware",),
        also_subcategories=("nic_link_flap", "switch_rdma_timeout"),
        **w.at_last(),
    )


def congested(w: Fresh) -> None:
    """A neighbour fills the fabric: every machine sees marked packets, all iterations get longer."""
    w.start()
    w.train(30)
    low, logged = w.n, w.told_n
    for k in range(4):
        for node in range(len(w.nodes)):
            text = f"net-probe: {w.rng.randrange(24, 46)}% of RoCE packets ECN marked, {w.rng.randrange(2, 9)}00k CNP/s"
            at = w.now + 1 + w.step_s * 8 * k + w.rng.random()
            w.say(at, node * w.per, text, "root", "ecn", "WARNING")
    w.train(32, slower=1.9)
    w.truth = Truth(
        "network",
        "rdma_congestion",
        "slow",
        failed_n=low + 1,
        logged_n=logged,
        also_categories=("performance",),
        also_subcategories=("slow_network", "packet_loss"),
    )


def lost_packets(w: Fresh) -> None:
    """Retries are exhausted between many pairs of machines at once; each names another peer."""
    w.start()
    w.train(33)
    at = w.now + 0.4 * w.step_s
    hit = sorted(w.rng.sample(range(len(w.nodes)), 9))
    for node in hit:
        peer = w.rng.choice([k for k in range(len(w.nodes)) if k != node])
        for rank in w.rng.sample(w.of(node), 2):
            w.raw(
                at + w.rng.random() * 3,
                rank,
                "{node}:{pid}:{tid} [{local}] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
                f"{w.ips[peer]}<{{port}}> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid "
                f"::ffff:{w.ips[node]} remoteGids::ffff:{w.ips[peer]} hca mlx5_{{local}}",
                "root",
                "retry",
            )
    w.broken(at + 3)
    w.over(at + 14, first=hit[0] * w.per)
    w.truth = Truth(
        "network",
        "packet_loss",
        affected=tuple(hit),
        also_categories=("hardware",),
        also_subcategories=("switch_rdma_timeout", "rdma_congestion", "link_down"),
        **w.at_last(),
    )


def quarter_rate(w: Fresh) -> None:
    """A port of one machine trains again at a quarter of its rate; the job goes on, half as fast."""
    w.start()
    w.train(28)
    low, logged, at = w.n, w.told_n, w.now + 0.2
    w.kernel(at, w.victim, "mlx5_core 0000:3a:00.0 ens1f0np0: Link down", "root", "down")
    w.kernel(at + 3.2, w.victim, "mlx5_core 0000:3a:00.0 ens1f0np0: Link up", "context", "up")
    w.say(
        at + 5,
        w.victim * w.per,
        "nic check: mlx5_0 port 1 active at 100 Gb/sec, 400 Gb/sec expected",
        "root",
        "rate",
        "WARNING",
    )
    w.now += 4
    w.train(34, slower=2.1)
    w.truth = Truth(
        "performance",
        "slow_network",
        "slow",
        faulty=(w.victim,),
        failed_n=low + 1,
        logged_n=logged,
        also_categories=("hardware", "network"),
        also_subcategories=("nic_link_flap", "slow_step", "link_down"),
    )


def starved_input(w: Fresh) -> None:
    """The input pipeline is too slow from some iteration on, everywhere."""
    w.start()
    slower, low, logged = 1.0, 0, 0
    for k in range(60):
        if k == 28:
            slower, low, logged = 2.2, w.n, w.told_n
        w.train(1, slower)
        busy = w.step_s * 0.97
        waited = max(w.step_s * slower - busy, 0.02 * w.step_s) * w.rng.uniform(0.95, 1.05)
        role = "context" if low else ""
        w.say(w.now + 0.01, w.reporter, f"timers: compute {busy:.2f} s, wait for data {waited:.2f} s", role, "timer")
        if low and k % 8 == 7:
            empty = w.rng.randrange(6, 9)
            text = f"prefetch queue empty at {empty} of the last 8 batches, input pipeline is the bottleneck"
            w.say(w.now + 0.02, w.reporter, text, "root", "empty", "WARNING")
    w.truth = Truth(
        "performance",
        "slow_dataloader",
        "slow",
        failed_n=low + 1,
        logged_n=logged,
        also_subcategories=("slow_step",),
    )


def slow_for_no_reason(w: Fresh) -> None:
    """Iterations become longer and stay so; no line shows why."""
    w.start()
    w.train(36)
    low, logged = w.n, w.told_n
    w.train(36, slower=1.6)
    w.truth = Truth(
        "performance",
        "slow_step",
        "slow",
        failed_n=low + 1,
        logged_n=logged,
        also_subcategories=("straggler", "slow_network", "slow_dataloader"),
    )


def slowest_in_the_table(w: Fresh) -> None:
    """The program prints a table of its slowest ranks; from some iteration on it contains one machine's ranks."""
    w.start()
    slower, low, logged = 1.0, 0, 0
    for k in range(8):
        if k == 4:
            slower, low, logged = 1.45, w.n, w.told_n
        w.train(8, slower)
        worst = w.rng.sample(w.of(w.victim), 4) if low else w.rng.sample(range(w.world), 4)
        top = w.step_s * slower
        row = ", ".join(
            f"rank {r} on {w.nodes[r // w.per]} {top * 1e3 * (0.97 - 0.004 * j):.0f}" for j, r in enumerate(worst)
        )
        text = f"forward+backward over 8 steps: median {w.step_s * 930:.0f} ms, slowest {row}"
        w.say(w.now + 0.02, w.reporter, text, "root" if low else "", "table")
    w.truth = Truth(
        "performance",
        "straggler",
        "slow",
        faulty=(w.victim,),
        failed_n=low + 1,
        logged_n=logged,
        also_categories=("hardware",),
        also_subcategories=("slow_step", "thermal_slowdown"),
    )


def bootstrap_breaks(w: Fresh) -> None:
    """The communication library has an internal error while it builds the first communicator, on every rank."""
    w.start("rendezvous")
    for rank in w.ranks():
        at = w.now + 4 + w.rng.random() * 2
        w.raw(
            at,
            rank,
            "{node}:{pid}:{tid} [{local}] misc/socket.cc:{num} NCCL WARN Message truncated : received 1024 bytes "
            "instead of 256. If you believe your socket network is in a healthy state, there "
            "may be a mismatch in environment settings between ranks\n"
            "~{node}:{pid}:{tid} [{local}] NCCL INFO init.cc:1117 -> 3\n"
            "~{node}:{pid}:{tid} [{local}] NCCL INFO group.cc:64 -> 3 [Async thread]",
            "root",
            "bootstrap",
        )
        w.boom(
            at + 0.2,
            rank,
            "torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, internal error - please report this issue to the NCCL "
            "developers, NCCL version 2.21.5\nncclInternalError: Internal check failed.\n~Last error:\n"
            "~Message truncated : received 1024 bytes instead of 256.",
            tid="internal",
            where="warm_up",
        )
    w.over(w.now + 12, first=0)
    w.truth = Truth(
        "framework",
        "nccl_internal",
        "launch_failure",
        "rendezvous",
        also_categories=("user",),
        also_subcategories=("bad_config",),
        also_stages=("model_build", "launch"),
    )


def different_collectives(w: Fresh) -> None:
    """With detailed checks switched on, one rank runs another collective than the rest."""
    w.start()
    w.train(24)
    at = w.now + 0.5 * w.step_s
    mine = "CollectiveFingerPrint(SequenceNumber={seq}, OpType=BROADCAST, TensorShape=[1], TensorDtypes=Long)"
    theirs = (
        "CollectiveFingerPrint(SequenceNumber={seq}, OpType=ALLREDUCE, TensorShape=[50331648], TensorDtypes=BFloat16)"
    )
    for rank in w.ranks():
        ours, other, who = (mine, theirs, 0) if rank == w.rank else (theirs, mine, w.rank)
        text = (
            f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: {ours}, "
            f"but Rank {who} is running collective: {other}.Collectives differ in the following aspects: \t Op type"
        )
        w.boom(at + w.rng.random(), rank, text, tid="mismatch", where="all_reduce")
    w.over(at + 8, first=0)
    w.truth = Truth(
        "framework",
        "collective_mismatch",
        origin=(w.victim,),
        also_categories=("user",),
        also_subcategories=("user_code_exception",),
        also_symptoms=("hang",),
        **w.at_last(),
    )


def stands_still(w: Fresh) -> None:
    """All progress ends between two iterations without a message; after two hours a person ends the job."""
    w.start()
    w.train(40, save_every=20)
    at = w.now + 7200
    for k in range(1, 8):
        rank = w.rng.choice(w.ranks())
        w.raw(w.now + 900 * k, rank, "wandb: Network error (ReadTimeout), entering retry loop.")
    w.over(at)
    w.lines = [x for x in w.lines if not (x.stream == "control" and "xited with" in x.text)]
    w.truth = Truth(
        "unknown",
        "unknown",
        "hang",
        also_categories=("platform",),
        also_subcategories=("cancelled",),
        **w.at_last(),
    )


def pauses(w: Fresh) -> None:
    """A healthy job with garbage collection, evaluation and checkpoints between its iterations."""
    w.start()
    for _ in range(4):
        w.train(14)
        w.raw(w.now + 0.1, w.reporter, "gc: collected 2.1M objects in 7.4 s (generation 2), training paused")
        w.now += 7.5
        w.train(6)
        w.checkpoint()
        w.train(1, slower=2.4)
    w.done()


def frightening(w: Fresh) -> None:
    """A healthy job whose log contains many words that look like a failure."""
    w.start()
    w.raw(w.now + 0.1, 0, "fatal: not a git repository (or any of the parent directories): .git")
    for rank in w.ranks():
        w.boom(w.now + 0.2, rank, "ModuleNotFoundError: No module named 'apex'", "", "", "import_optional")
        w.raw(w.now + 0.3, rank, "optional package apex is not there, using the slow path (error ignored)")
    w.train(20)
    w.say(w.now + 0.1, 5, "ERROR upload of traces failed: Connection refused, retrying (1/5)", level="ERROR")
    w.say(w.now + 4.1, 5, "upload of traces succeeded at attempt 2")
    w.kernel(w.now + 1, w.victim, "mlx5_core 0000:3a:00.0 ens1f0np0: Link down")
    w.kernel(w.now + 2.8, w.victim, "mlx5_core 0000:3a:00.0 ens1f0np0: Link up")
    w.say(w.now + 5, w.rank, "loss of one micro batch is nan, update skipped (1 of at most 10)", level="WARNING")
    w.now += 6
    w.train(22, save_every=11)
    w.say(w.now + 0.1, w.rank, "health check: fatal=0 critical=0 xid=0 oom_kills=0 panics=0")
    w.kernel(w.now + 0.2, 1, "nfs: server 10.9.0.4 not responding, still trying")
    w.kernel(w.now + 1.9, 1, "nfs: server 10.9.0.4 OK")
    w.now += 2
    w.train(24, save_every=12)
    w.done()


NETWORK: dict[str, Entry] = {
    "rack_switch": (rack_switch, 96, ("nanotron", "olmo", "pulse")),
    "congested": (congested, 32, ("kontor", "pulse", "xingyun")),
    "lost_packets": (lost_packets, 64, ("nanotron", "metaseq")),
    "quarter_rate": (quarter_rate, 0, ("nanotron", "pulse", "olmo", "metaseq")),
    "starved_input": (starved_input, 0, PYTHON),
    "slow_for_no_reason": (slow_for_no_reason, 64, (*PYTHON, "llmc")),
    "slowest_in_the_table": (slowest_in_the_table, 32, PYTHON),
    "bootstrap_breaks": (bootstrap_breaks, 0, NVIDIA),
    "different_collectives": (different_collectives, 0, TORCH),
    "stands_still": (stands_still, 128, ("nanotron", "olmo", "metaseq")),
    "pauses": (pauses, 0, (*PYTHON, "llmc")),
    "frightening": (frightening, 0, PATIENT),
}
