"""Courses in which ports, cables, switches or the traffic between machines are at fault."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.third import peers
from lab.exams.sealed.third.courses.base import LINUX, RDMA, Found, kernel, quiet, run

FOUND = Found()


@FOUND.course(RDMA)
def optics_too_weak(c: Case) -> None:
    run(c)
    c.mark()
    kernel(
        c,
        (
            "mlx5_core 0000:9a:00.0: Port module event[error]: module 0, Cable error, Bad signal integrity",
            f"mlx5_core 0000:9a:00.0 ens{c.dialect % 9}f0np0: Link down",
            f"infiniband mlx5_{c.vr % 8}: mlx5_ib_event: port 1 error, GID table entries invalidated",
        ),
        gap=1.5,
    )
    c.wait(5)
    peers.broken(c, c.some(c.peers(), 4, 20))
    peers.fall(c, -6)
    c.blame("hardware/nic_link_flap", "crash", "training", [c.v], also="network/link_down")


@FOUND.course(("flux_rocm", "pbs_xpu"))
def cassini_loses_its_link(c: Case) -> None:
    run(c)
    c.mark()
    nic = c.vr % 4
    kernel(
        c,
        (
            f"cxi_ss1 0000:d{nic}:00.0: hsn{nic}: excessive uncorrected codeword rate, UCW {c.dialect}e3/s",
            f"cxi_ss1 0000:d{nic}:00.0: hsn{nic}: Link is down, reason: llr_replay_max",
            f" cxi_ss1 0000:d{nic}:00.0: hsn{nic}: retraining attempt 1 failed",
        ),
        gap=2,
    )
    c.wait(8)
    peers.fall(c, -6)
    c.blame("hardware/nic_link_flap", "crash", "training", [c.v], also="network/link_down")


@FOUND.course(RDMA, 8)
def leaf_switch_reboots(c: Case) -> None:
    """All machines of a leaf lose their links in the same second, the switch reports that it starts."""
    run(c)
    c.mark()
    leaf = c.leaf[c.v]
    t, us = c.stamp(None)
    head = f"<186>1 {t.iso}.{us:06d}{t.zone} {leaf} sonic"
    c.add(
        "fabric/switches.log",
        f"{head} thermalctld: ASIC temperature 109 C over critical, asserting reset",
        ROOT,
        "asic",
    )
    for k in c.rack:
        text = f"{head} orchagent: port Ethernet{4 * k} ({c.nodes[k]}) oper state set from up to down"
        c.add("fabric/switches.log", text, ROOT, "oper", 0.5)
        kernel(c, (" mlx5_core 0000:9a:00.0 ens1f0np0: Link down",), k)
    c.wait(6)
    peers.broken(c, [r for r in c.some(c.alive(), 8, 40) if c.node(r) != c.v])
    peers.fall(c, -6)
    c.blame("network/link_down", "crash", "training", origin=c.rack, affected=c.rack, switch=leaf)


@FOUND.course(RDMA, 6)
def too_many_marks(c: Case) -> None:
    """Congestion notices and pauses on every machine; reductions take longer and longer."""
    run(c, 15, 30)
    c.mark()
    for k in range(c.rng.randint(5, 8)):
        for node in c.some(range(len(c.nodes)), 4, 16):
            c.unit(
                node,
                "rdmastat[915]",
                f"mlx5_0 np_cnp_sent +{90_000 * (k + 1) + node}, rp_cnp_handled +{80_000 * (k + 1)}, "
                f"rx_prio3_pause +{7000 * (k + 1)} in 60 s (normal below 200)",
                ROOT,
                "cnp",
            )
        c.train(3, 5, 1.5 + 0.2 * k)
    quiet(c)
    c.blame("network/rdma_congestion", "slow", "training", also="performance/slow_network")


@FOUND.course(("kagami", "hanbit", "werk", "swift_dlc"), 8)
def path_without_acks(c: Case) -> None:
    """Transfers to the machines of a leaf run out of retries; no port went down."""
    run(c)
    c.mark()
    for k, r in enumerate(c.some([r for r in c.alive() if c.node(r) not in c.rack] or c.alive(), 6, 24)):
        dt = c.rng.uniform(0, 4)
        t, _ = c.stamp(c.node(r), dt)
        far = c.ips[c.rack[k % len(c.rack)]]
        text = (
            f"[{t.both}] {c.host(r)}:{c.pids[r]}:{c.pids[r] + 402} [{r % c.per}] transport/net_ib/p2p.cc:511 NCCL WARN "
            f"NET/IB: Got completion from peer {far}<{42_000 + k}> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=1 len=0 "
            f"vendor err 129 (Send) localGid fe80::1 remoteGid fe80::{k:x} hca mlx5_{r % 8}"
        )
        c.raw(r, text, ROOT, "retry", dt)
    c.wait(6)
    c.died(c.peers()[0], -6)
    c.closed("fail")
    c.blame(
        "network/switch_rdma_timeout", "crash", "training", origin=c.rack, affected=c.rack, also="network/link_down"
    )


@FOUND.course(LINUX)
def lossy_management_network(c: Case) -> None:
    """Keep-alives of the control store to one host are lost."""
    run(c)
    c.mark()
    seer = c.w * c.per
    for k in range(5):
        c.log(
            seer,
            f"keepalive to {c.ips[c.v]}: {40 + 12 * k}% of probes lost in the last 30 s",
            "W",
            ROOT,
            "probe",
            dt=30 * k,
        )
    c.wait(160)
    c.trace(seer, (f"OSError: [Errno 113] No route to host: {c.ips[c.v]}:29400",), ROOT, "route", "reduce")
    c.wait(3)
    c.died(seer, 1)
    peers.ended(c, c.firsts())
    c.closed("fail")
    c.blame("network/packet_loss", "crash", "training", [c.v], also="hardware/node_lost network/link_down")


@FOUND.course(RDMA)
def adapter_assert(c: Case) -> None:
    """The firmware of an adapter stops."""
    run(c)
    c.mark()
    kernel(
        c,
        (
            "mlx5_core 0000:9a:00.0: print_health_info: synd 0x8: unrecoverable hardware error",
            " mlx5_core 0000:9a:00.0: print_health_info: fw_ver 28.43.1014",
            "mlx5_core 0000:9a:00.0: mlx5_crdump_collect: crdump: failed to lock vsc gw err -16",
            "mlx5_core 0000:9a:00.0: poll_health: device's health compromised - reached miss count",
        ),
    )
    peers.stuck(c)
    c.blame("hardware/nic_link_flap", "crash hang", "training", [c.v])


@FOUND.course(RDMA, 6)
def quarter_width(c: Case) -> None:
    """One port came up with one lane; transfers through it are slow, nothing fails."""
    run(c, 15, 30)
    kernel(c, (f"mlx5_core 0000:9a:00.0 ens{c.dialect % 9}f0np0: Link up at 100Gbps, 1 of 4 lanes (expected 400Gbps)",))
    c.mark()
    for k in range(c.rng.randint(4, 7)):
        c.train(4, 6, 2.1)
        text = (
            f"bandwidth per node over the last {60 + k} s: median 361 Gb/s, lowest 88 Gb/s ({c.victim}), "
            f"reduce share of a step {58 + k}%"
        )
        c.log(0, text, "W", ROOT, "bw")
    if c.rng.random() < 0.5:
        c.closed("cancel", CONTEXT)
    quiet(c)
    c.blame("performance/slow_network", "slow", "training", [c.v], also="hardware/nic_link_flap performance/straggler")


@FOUND.course(("kagami", "hanbit", "werk"), 6)
def library_breaks_its_own_rule(c: Case) -> None:
    """The communication library fails an internal check on several machines; nothing below it is at fault."""
    run(c)
    c.mark()
    ranks = c.some(c.alive(), 4, 12)
    for r in ranks:
        dt = c.rng.random()
        t, _ = c.stamp(c.node(r), dt)
        text = f"[{t.both}] {c.host(r)}:{c.pids[r]}:{c.pids[r] + 9} [{r % c.per}] proxy.cc:{700 + c.dialect % 90}"
        c.raw(
            r,
            f"{text} NCCL WARN [Proxy Progress] Unexpected op state 7 for opCount {c.n * 12}",
            ROOT,
            "op",
            dt,
        )
        what = (
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268,"
            " internal error - please report this issue to the NCCL developers, NCCL version 2.27.5"
        )
        c.trace(r, (what, "ncclInternalError: Internal check failed."), SECOND, "internal", "reduce", 1.5)
    c.wait(4)
    c.died(ranks[0], 1)
    c.closed("fail")
    c.blame("framework/nccl_internal", "crash", "training")
