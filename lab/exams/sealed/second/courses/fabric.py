"""Courses in which the network between machines is at fault."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.second import peers
from lab.exams.sealed.second.courses.base import ALL, TORCH, VERBS, Found, quiet, ranks_of, start, stop_or_copy

FOUND = Found()


def completion(c: Case, r: int, peer: int, role: str, dt: float = 0.0, status: int = 12) -> None:
    """A transfer that ran out of retries."""
    mine, theirs = c.ips[c.node(r)], c.ips[peer]
    word = {12: "IBV_WC_RETRY_EXC_ERR(12)", 5: "IBV_WC_WR_FLUSH_ERR(5)"}[status]
    pre = (
        f"{c.host(r)}:{c.pids[r]}:{c.pids[r] + 90} [{r % c.per}] transport/net_ib.cc:1884 NCCL WARN "
        "NET/IB: Got completion from peer"
    )
    text = (
        f"{pre} {theirs}<{40_000 + r}> with status={word} opcode=IBV_WC_SEND(0) reqSize=0 "
        f"vendor_err=129 req_type=Send localGid ::ffff:{mine}"
    )
    c.raw(r, f"{text} remoteGids::ffff:{theirs} hca mlx5_{r % c.per}", role, f"wc{status}", dt)


def remote(c: Case, r: int, dt: float = 0.0) -> None:
    """The exception after such a completion."""
    c.trace(
        r,
        (
            "torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/NCCLUtils.cpp:94, remote process exited or "
            "there was a network error, NCCL version 2.23.4",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        ),
        SECOND,
        "remote",
        "reduce",
        dt,
    )


@FOUND.course(VERBS)
def port_goes_up_and_down(c: Case) -> None:
    start(c)
    port = f"mlx5_core 0000:{0x1A + 0x11 * (c.vr % c.per):02x}:00.0 ib{c.vr % c.per}"
    for _ in range(c.rng.randint(0, 3)):
        c.kern(c.v, f"{port}: Link down", ROOT, "down")
        c.wait(1, 4)
        c.kern(c.v, f"{port}: Link up", ROOT, "up")
        c.train(3, 9)
    c.mark()
    c.kern(c.v, f"{port}: Link down", ROOT, "down")
    c.wait(9, 22)
    for r in c.some(ranks_of(c, c.v), 1, 2):
        completion(c, r, c.w, SECOND, status=5)
    for r in c.some(c.peers(), 2, 8):
        completion(c, r, c.v, SECOND, c.rng.uniform(0, 3))
        remote(c, r, 3.1)
    if c.rng.random() < 0.5:
        c.kern(c.v, f"{port}: Link up", ROOT, "up", 5)
    c.now += 8
    others = c.peers()
    c.died(others[0], 1)
    c.closed("fail")
    c.blame("hardware/nic_link_flap", "crash", "training", [c.v])


@FOUND.course(("primus",))
def firmware_of_the_adapter(c: Case) -> None:
    """A Broadcom adapter's firmware crashes on one machine."""
    start(c)
    c.mark()
    dev = f"bnxt_en 0000:{0x21 + c.vr % c.per:02x}:00.0 rdma{c.vr % c.per}"
    c.kern(c.v, f"{dev}: Error (timeout: 500015) msg {{0x90 0x{c.dialect:x}}} len:0", ROOT, "fwmsg")
    c.kern(c.v, f"{dev}: Firmware fatal event 0xffffff03, min wait 20 ms", ROOT, "fatal", 0.8)
    c.kern(c.v, f"{dev}: bnxt_re: Fatal device error, QP events are flushed", ROOT, "re", 1.1)
    c.wait(6, 15)
    c.blame("hardware/nic_link_flap", "crash", "training", [c.v])
    peers.fall(c)


@FOUND.course(VERBS, 8)
def leaf_restarts(c: Case) -> None:
    """A leaf switch restarts: all machines behind it lose their links at the same second."""
    start(c)
    c.mark()
    switch = c.leaf[c.v]
    t, us = c.stamp(None)
    if has_switch := c.rng.random() < 0.6:
        for k, text in enumerate(
            (
                "%SYS-5-RELOAD: Reload requested by watchdog. Reload reason: kernel heartbeat lost",
                "%PORT-5-DOWN: all front panel ports are going down",
            )
        ):
            c.add(
                "netops/switches.log",
                f"{t.date} {t.time}.{us // 1000:03d} {switch} {text}",
                ROOT,
                f"switch{k}",
                0.01 * k,
            )
        for name in sorted({*c.leaf} - {switch}):
            c.add(
                "netops/switches.log",
                f"{t.date} {t.time} {name} %LLDP-6-NEIGHBOR_AGED: neighbor {switch} aged out on Et49/1",
                SECOND,
                "lldp",
                95,
            )
    for k in c.rack:
        for g in range(min(c.per, 4)):
            c.kern(k, f"mlx5_core 0000:{0x1A + 0x11 * g:02x}:00.0 eth{g + 2}: Link down", ROOT, "down", c.rng.random())
    c.wait(10, 25)
    for k in c.rack:
        completion(c, k * c.per, (k + 1) % len(c.nodes), SECOND, c.rng.random(), 5)
    for r in c.some([r for r in c.alive() if c.node(r) not in c.rack], 3, 20):
        completion(c, r, c.rng.choice(c.rack), SECOND, c.rng.uniform(0, 3))
        remote(c, r, 3.1)
    c.now += 8
    c.died(c.alive()[0], 1)
    c.closed("fail")
    c.blame(
        "network/link_down",
        "crash",
        "training",
        origin=c.rack,
        affected=c.rack,
        switch=switch if has_switch else "",
        also="hardware/nic_link_flap" if not has_switch else "",
    )


@FOUND.course(VERBS, 8)
def path_loses_transfers(c: Case) -> None:
    """Transfers between the leaves time out, on many pairs; no port goes down and no machine stands out."""
    start(c)
    c.mark()
    c.wait(8, 20)
    here, there = c.rack, [k for k in range(len(c.nodes)) if k not in c.rack]
    pairs = [(c.rng.choice(here), c.rng.choice(there)) for _ in range(max(5, len(c.nodes)))]
    for a, b in pairs:
        for x, y in ((a, b), (b, a)):
            r = x * c.per + c.rng.randrange(c.per)
            completion(c, r, y, ROOT, c.rng.uniform(0, 6))
            if c.rng.random() < 0.4:
                remote(c, r, 6.2)
    c.now += 10
    c.died(pairs[0][0] * c.per, 1)
    c.closed("fail")
    c.blame("network/switch_rdma_timeout", "crash", "training")


@FOUND.course(("clipper", "yunke", "tessera", "lingua"), 6)
def fabric_is_full(c: Case) -> None:
    """Steps become slow; the collectors of all machines count pauses and congestion notices."""
    nodes = range(len(c.nodes))
    counts = {k: [c.rng.randrange(1000, 90_000), c.rng.randrange(10, 900)] for k in nodes}

    def sample(much: float, role: str) -> None:
        for k in nodes:
            counts[k][0] += int(much * c.rng.uniform(0.5, 1.5) * 40_000)
            counts[k][1] += int(much * c.rng.uniform(0.5, 1.5) * 900)
            t, _ = c.stamp(k)
            told = (
                f"np_cnp_sent={counts[k][0]} rp_cnp_handled={counts[k][0] - 31} "
                f"rx_prio3_pause={counts[k][1]} out_of_sequence={counts[k][1] // 9}"
            )
            c.add(
                "netmon/roce-counters.log",
                f"{t.both} {c.nodes[k]} mlx5_bond_{k % 4} {told}",
                role,
                "counters",
                c.rng.random(),
            )

    c.ready()
    for _ in range(4):
        c.train(6, 12)
        sample(0.002, "")
    quiet(c)
    c.mark()
    for _ in range(c.rng.randint(4, 8)):
        c.train(4, 8, c.rng.uniform(1.7, 2.4))
        sample(30, ROOT)
        t, _ = c.stamp(None)
        text = (
            f"{t.both} fabric-watch {c.rng.choice(c.leaf)} ECN mark rate "
            f"{c.rng.uniform(20, 70):.1f}% PFC watchdog: storm on 3 queues"
        )
        c.add("netmon/roce-counters.log", text, ROOT, "ecn")
    stop_or_copy(c)
    c.blame("network/rdma_congestion", "slow", "training", also="performance/slow_network")


@FOUND.course(("bmtrain",))
def transport_retries(c: Case) -> None:
    """UCX reports exhausted retries between machines of two racks."""
    start(c)
    c.mark()
    c.wait(8, 20)
    here, there = c.rack, [k for k in range(len(c.nodes)) if k not in c.rack] or [c.w]
    for _ in range(3 * len(c.nodes)):
        a, b = (c.rng.choice(here), c.rng.choice(there))[:: c.rng.choice((1, -1))]
        r, at = a * c.per + c.rng.randrange(c.per), c.t0 + c.now
        c.raw(
            r,
            f"[{at:.6f}] [{c.nodes[a]}:{c.pids[r]}:0]    ib_mlx5_log.c:179  UCX  ERROR Transport "
            f"retry count exceeded on mlx5_{r % 4}:1/IB "
            "(synd 0x15 vend 0x81 hw_synd 0/0)",
            ROOT,
            "ucx",
            c.rng.uniform(0, 5),
        )
        c.raw(
            r,
            f"[{at:.6f}] [{c.nodes[a]}:{c.pids[r]}:0]    ib_mlx5_log.c:179  UCX  ERROR RC QP "
            f"0x{c.pids[r]:x} wqe[{c.n % 512}]: SEND s-- [inl len "
            f"26] [rqpn 0x{c.pids[r] + 9:x} dlid={b + 11} sl=0 port=1 src_path_bits=0]",
            CONTEXT,
            "",
            5.1,
        )
    c.now += 8
    c.died(here[0] * c.per, 255)
    c.closed("fail")
    c.blame("network/switch_rdma_timeout", "crash", "training")


@FOUND.course(("xtuner_npu",))
def hccl_retransmits(c: Case) -> None:
    """The cards of many machines report retransmits without an answer; links stay up."""
    start(c)
    c.mark()
    c.wait(20, 60)
    for r in c.some(c.alive(), 8, 40):
        t, us = c.stamp(c.node(r))
        peer = c.rng.choice([k for k in range(len(c.nodes)) if k != c.node(r)])
        plog = f"plog/{c.host(r)}/plog-{c.pids[r]}_{t.date.replace('-', '')}.log"
        c.add(
            plog,
            f"[ERROR] ROCE({c.pids[r]},hccp_service.bin):{t.date}-{t.time}.{us // 1000:03d}.{us % 1000:03d} "
            "[roce_cqe.c:311]error cqe status:"
            f"0x15, transport retry counter exceeded, local {c.ips[c.node(r)]} remote "
            f"{c.ips[peer]}",
            ROOT,
            "cqe",
            c.rng.uniform(0, 9),
        )
    c.now += 10
    waiting = c.some(c.alive(), 4, 30)
    peers.timeout(c, waiting, patience=1800)
    c.died(waiting[0], 1)
    c.closed("fail")
    c.blame("network/switch_rdma_timeout", "crash hang", "training")


@FOUND.course(TORCH, 4, 32)
def host_not_reached(c: Case) -> None:
    """One machine is not reached over the ordinary network at the start; it runs and cannot reach the others."""
    c.v = max(1, c.v)
    c.voice.launched(c)
    for k in range(len(c.nodes)):
        if k != c.v:
            c.log(
                k * c.per,
                f"rank {k * c.per} on {c.nodes[k]} ({c.ips[k]}): joined the store at {c.ips[0]}:29500",
                dt=c.rng.random(),
            )
    quiet(c, 0.2)
    first = c.v * c.per
    for k in range(c.rng.randint(3, 7)):
        t, us = c.stamp(c.v, 30.0 * k)
        c.raw(
            first,
            f"[W{t.mmdd} {t.time}.{us:06d} socket.cpp:752] [c10d] The client socket has "
            f"failed to connect to [{c.nodes[0]}]:29500 "
            "(errno: 113 - No route to host).",
            ROOT,
            "noroute",
            30.0 * k,
        )
    c.now += 300
    c.trace(
        first,
        (
            "torch.distributed.DistNetworkError: The client socket has failed to connect to "
            f"any network address of ({c.nodes[0]}, 29500).",
        ),
        ROOT,
        "connect",
        "init",
    )
    for r in c.some([r for r in c.firsts() if c.node(r) != c.v], 2, 20):
        c.trace(
            r,
            (
                "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for "
                f"clients. {len(c.nodes) - 1}/{len(c.nodes)} clients joined.",
            ),
            SECOND,
            "store",
            "init",
            c.rng.random(),
        )
    c.died(first, 1)
    c.closed("fail")
    c.blame("network/packet_loss", "launch_failure", "rendezvous launch", [c.v], also="framework/rendezvous_timeout")


@FOUND.course(ALL, 4, 32)
def names_do_not_resolve(c: Case) -> None:
    """The name service is away: no worker finds the first one."""
    c.voice.launched(c)
    quiet(c, 0.2)
    words = c.rng.choice(((-3, "Temporary failure in name resolution"), (-2, "Name or service not known")))
    for k in range(c.rng.randint(2, 4)):
        for r in c.firsts()[1:]:
            c.log(
                r,
                f"waiting for the coordinator: getaddrinfo({c.nodes[0]}): {words[1]}",
                "W",
                ROOT,
                "eai",
                20 * k + c.rng.uniform(0, 9),
            )
    c.now += 90
    for r in c.firsts()[1:]:
        c.trace(
            r,
            (f"socket.gaierror: [Errno {words[0]}] {words[1]}",),
            ROOT,
            "gaierror",
            "init",
            c.rng.uniform(0, 9),
        )
    c.now += 12
    c.died(c.per, 1)
    c.closed("fail")
    c.blame(
        "framework/rendezvous_timeout",
        "launch_failure",
        "rendezvous launch",
        also="network/packet_loss platform/scheduler",
    )
