"""Courses in which a machine or its disk is at fault, or a process is killed on it."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, SECOND, Case
from lab.exams.sealed.third import peers
from lab.exams.sealed.third.courses.base import ALL, LINUX, Found, kernel, run

FOUND = Found()


def lost(c: Case, role: str = SECOND) -> None:
    """The victim is silent; peers and the scheduler notice."""
    c.gone.add(c.v)
    c.wait(4, 20)
    peers.broken(c, c.some(c.peers(), 4, 30), over=25)
    c.wait(60, 240)
    peers.ended(c, c.firsts())
    c.closed("lost", role, "lost")


@FOUND.course(LINUX)
def all_memory_of_the_host(c: Case) -> None:
    run(c)
    c.mark()
    pid = c.pids[c.vr]
    kernel(
        c,
        (
            "python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
            " Mem-Info: active_anon:81234 inactive_anon:508123456 isolated_anon:0",
            f"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task=python3,pid={pid}",
            f"Out of memory: Killed process {pid} (python3) total-vm:2131{pid}kB, anon-rss:1898{pid}kB, file-rss:0kB",
        ),
        gap=0.02,
    )
    peers.fall(c, -9)
    c.blame("hardware/host_oom", "crash", "training", [c.v], also="user/host_memory_leak")


@FOUND.course(ALL)
def dark_all_at_once(c: Case) -> None:
    run(c)
    c.mark()
    lost(c, ROOT)
    c.blame("hardware/node_lost", "crash hang", "training", [c.v])


@FOUND.course(("kagami", "werk", "flux_rocm", "moteur"))
def both_supplies(c: Case) -> None:
    """The controller of a machine reports that its supplies lost their input."""
    run(c)
    c.mark()
    for k in range(2):
        text = f"SEL: Power Supply PS{k + 1} Status: Power Supply input lost (AC/DC) | Asserted"
        c.unit(c.v, "bmc-relay[644]", text, ROOT, "psu", k)
    c.unit(c.v, "bmc-relay[644]", "SEL: System Power: Power off/down | Asserted", ROOT, "off", 1.2)
    c.wait(2)
    lost(c)
    c.blame("hardware/node_lost", "crash", "training", [c.v])


@FOUND.course(LINUX)
def signal_nine_from_nowhere(c: Case) -> None:
    """A rank is killed; kernels were collected and say nothing."""
    run(c)
    c.mark()
    c.died(c.vr, -9, ROOT, "nine")
    c.dead.add(c.vr)
    c.wait(1, 5)
    peers.broken(c, c.some(c.peers(), 4, 20))
    c.wait(5)
    c.closed("fail")
    c.blame("hardware/process_killed", "crash", "training", [c.v], also="hardware/host_oom")


@FOUND.course(LINUX)
def nvme_does_not_answer(c: Case) -> None:
    run(c)
    c.mark()
    kernel(
        c,
        (
            f"nvme nvme2: I/O {c.dialect} QID 14 timeout, aborting req_op:READ(0) size:131072",
            "nvme nvme2: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
            "nvme nvme2: Disabling device after reset failure: -19",
            f"I/O error, dev nvme2n1, sector {c.pids[0] * 8} op 0x0:(READ) flags 0x80700 phys_seg 4 prio class 2",
        ),
        gap=9,
    )
    c.wait(28)
    c.trace(c.vr, (f"OSError: [Errno 5] Input/output error: '/local/feed/{c.n:08d}.bin'",), SECOND, "eio", "data")
    peers.fall(c, 1)
    c.blame("hardware/disk_io", "crash", "training", [c.v])


@FOUND.course(LINUX)
def no_room_below_tmp(c: Case) -> None:
    run(c, save=15)
    c.mark()
    c.voice.save(c, True)
    c.wait(3, 9)
    what = f"OSError: [Errno 28] No space left on device: '/tmp/stage-{c.n}/part{c.vr:04d}.tmp'"
    c.trace(c.vr, (what,), ROOT, "nospace", "save")
    c.unit(c.v, "telegraf[3010]", "disk / used_percent=100 inodes_free=0", CONTEXT, "", 2)
    peers.fall(c, 1)
    c.blame("hardware/disk_full", "crash", "checkpoint_save", [c.v])


@FOUND.course(LINUX)
def module_of_memory(c: Case) -> None:
    """Corrected errors grow into one that cannot be corrected."""
    run(c)
    for k in range(5):
        text = f"EDAC i10nm MC2: {9 + 200 * k} CE memory read error on CPU_SrcID#1_MC#0_Chan#1_DIMM#0 (page:0x{k}f1)"
        c.kern(c.v, text, ROOT, "ce")
        c.train(2, 4)
    c.mark()
    kernel(
        c,
        (
            "EDAC i10nm MC2: 1 UE memory read error on CPU_SrcID#1_MC#0_Chan#1_DIMM#0",
            f"Memory failure: 0x4{c.dialect}: Sending SIGBUS to pt:{c.pids[c.vr]} due to hardware memory corruption",
        ),
    )
    peers.fall(c, -7)
    c.blame("hardware/mce_memory", "crash", "training", [c.v])


@FOUND.course(LINUX)
def oops_in_a_module(c: Case) -> None:
    run(c)
    c.mark()
    kernel(
        c,
        (
            "BUG: kernel NULL pointer dereference, address: 0000000000000058",
            " #PF: supervisor read access in kernel mode",
            f" CPU: {c.dialect % 120} PID: {c.pids[c.vr]} Comm: ptlrpcd_01_{c.dialect % 20:02d} Tainted: P OE 6.8.0-57",
            "RIP: 0010:osc_extent_wait+0x1c8/0x6f0 [osc]",
            "Kernel panic - not syncing: Fatal exception",
        ),
        gap=0.001,
    )
    c.wait(0.5)
    lost(c)
    c.blame("hardware/kernel_panic", "crash", "training", [c.v])


@FOUND.course(LINUX)
def completion_timeout_on_the_bus(c: Case) -> None:
    run(c)
    c.mark()
    port = f"0000:{c.dialect % 90 + 10}:01.0"
    kernel(
        c,
        (
            f"pcieport {port}: AER: Multiple Uncorrectable (Fatal) error message received from {port}",
            f"pcieport {port}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)",
            f"pcieport {port}:    [14] CmpltTO                (First)",
            f" pcieport {port}: AER: subordinate device reset failed",
        ),
        gap=0.01,
    )
    peers.fall(c, -7)
    c.blame("hardware/pcie_aer", "crash", "training", [c.v])
