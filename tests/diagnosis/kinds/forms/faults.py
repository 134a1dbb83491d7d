"""Faults as facts: four alike objects of invented tools, of which the third one is bad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BAD = 2


class Fault(NamedTuple):
    """``kind`` and ``names`` of the objects, other properties (``same``), and those that differ:
    ``good`` and ``bad`` values. ``means``: beginnings of the categories that are right.
    """

    kind: str
    names: tuple[str, ...]
    same: Mapping[str, tuple[str, ...]]
    good: Mapping[str, str]
    bad: Mapping[str, str]
    means: tuple[str, ...]

    def rows(self, *, is_bad: bool) -> list[dict[str, str]]:
        """The rows of a report, of which one is bad."""
        out = []
        for at, name in enumerate(self.names):
            values = self.bad if is_bad and at == BAD else self.good
            others = {key: own[at] for key, own in self.same.items()}
            out.append({self.kind: name, **values, **others})
        return out


GPUS = ("gpu0", "gpu1", "gpu2", "gpu3")
PORTS = ("eth10", "eth11", "eth12", "eth13")
DISKS = ("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1")
NODES = ("gpu-11", "gpu-12", "gpu-13", "gpu-14")
JOBS = ("8121", "8122", "8123", "8124")
RANKS = ("4", "5", "6", "7")
OF_GPU = {"temperature_c": ("41", "43", "42", "40"), "memory_used_mib": ("812", "816", "812", "813")}
OF_PORT = {"mtu": ("9214",) * 4, "rx_packets": ("81231", "80121", "81112", "79121")}
OF_DISK = {"temperature_c": ("31", "33", "32", "30"), "firmware": ("GX2",) * 4}
OF_NODE = {"cpus": ("96",) * 4, "uptime_days": ("41", "43", "42", "40")}
OF_JOB = {"user": ("ada",) * 4, "nodes": ("8", "4", "8", "2")}
GPU = ("hardware.gpu", "hardware.npu")
PORT = ("network", "hardware.network")
DISK = ("hardware.disk", "platform.storage")
NODE = ("hardware.host", "platform.scheduler")


def _of_gpu(good: Mapping[str, str], bad: Mapping[str, str], *means: str) -> Fault:
    return Fault("gpu", GPUS, OF_GPU, good, bad, means or GPU)


def _of_port(good: Mapping[str, str], bad: Mapping[str, str], *means: str) -> Fault:
    return Fault("port", PORTS, OF_PORT, good, bad, means or PORT)


def _of_disk(good: Mapping[str, str], bad: Mapping[str, str], *means: str) -> Fault:
    return Fault("disk", DISKS, OF_DISK, good, bad, means or DISK)


def _of_node(good: Mapping[str, str], bad: Mapping[str, str], *means: str) -> Fault:
    return Fault("node", NODES, OF_NODE, good, bad, means or NODE)


def _of_job(good: Mapping[str, str], bad: Mapping[str, str], *means: str) -> Fault:
    return Fault("job", JOBS, OF_JOB, good, bad, means)


FAULTS: Mapping[str, Fault] = {
    # words of a state
    "gpu health degraded": _of_gpu({"health": "healthy"}, {"health": "degraded"}),
    "gpu state fault": _of_gpu({"state": "ok"}, {"state": "fault"}),
    "gpu lost": _of_gpu({"status": "ready"}, {"status": "lost"}),
    "port link down": _of_port({"link_state": "up"}, {"link_state": "down"}),
    "port oper down": _of_port({"admin": "up", "oper": "up"}, {"admin": "up", "oper": "down"}),
    "disk offline": _of_disk({"status": "online"}, {"status": "offline"}),
    "disk failing": _of_disk({"health": "good"}, {"health": "failing"}),
    "node not ready": _of_node({"status": "ready"}, {"status": "not ready"}),
    "node unreachable": _of_node({"state": "idle"}, {"state": "unreachable"}),
    "service inactive": Fault(
        "service",
        ("fabric-manager", "collector", "mount-data", "time-sync"),
        {"since_days": ("41", "43", "42", "40")},
        {"active": "active"},
        {"active": "inactive"},
        ("hardware", "platform", "user.environment"),
    ),
    "service failed": Fault(
        "service",
        ("fabric-manager", "collector", "mount-data", "time-sync"),
        {"since_days": ("41", "43", "42", "40")},
        {"state": "running"},
        {"state": "failed"},
        ("hardware", "platform", "user.environment"),
    ),
    "fan fault": Fault(
        "fan",
        ("fan1", "fan2", "fan3", "fan4"),
        {"rpm": ("8600", "8500", "8550", "8610")},
        {"status": "ok"},
        {"status": "fault"},
        ("hardware.host", "hardware.gpu.thermal"),
    ),
    "job timed out": _of_job({"state": "running"}, {"state": "timed out"}, "platform.scheduler.time_limit"),
    "job evicted": _of_job({"state": "running"}, {"state": "evicted"}, "platform.scheduler"),
    "job out of memory": _of_job({"state": "completed"}, {"state": "oom-killed"}, "hardware.host.oom"),
    "certificate expired": Fault(
        "certificate",
        ("ca", "registry", "storage", "api"),
        {"days_left": ("81", "43", "12", "40")},
        {"status": "valid"},
        {"status": "expired"},
        ("user.environment", "platform"),
    ),
    # counters
    "port crc errors": _of_port({"rx_crc_errors": "0"}, {"rx_crc_errors": "48211"}),
    "port discards": _of_port({"tx_discards": "12"}, {"tx_discards": "1203311"}),
    "link retransmits": _of_port({"retransmits": "31"}, {"retransmits": "912831"}),
    "port symbol errors": _of_port({"symbol_errors": "0"}, {"symbol_errors": "71233"}),
    "port ack timeouts": _of_port({"local_ack_timeouts": "0"}, {"local_ack_timeouts": "8812"}),
    "gpu uncorrectable": _of_gpu({"ecc_uncorrectable": "0"}, {"ecc_uncorrectable": "6"}),
    "gpu double bit": _of_gpu({"double_bit_errors": "0"}, {"double_bit_errors": "3"}),
    "gpu xid": _of_gpu({"last_xid": "0"}, {"last_xid": "79"}),
    "disk media errors": _of_disk({"media_errors": "0"}, {"media_errors": "92"}),
    "disk io errors": _of_disk({"read_errors": "0"}, {"read_errors": "4812"}),
    # limits beside values
    "link width": _of_gpu(
        {"pcie_width_current": "16", "pcie_width_max": "16"},
        {"pcie_width_current": "4", "pcie_width_max": "16"},
        "hardware.host.pcie",
        "performance",
    ),
    "link speed": _of_gpu(
        {"link_speed": "32 GT/s", "max_link_speed": "32 GT/s"},
        {"link_speed": "2.5 GT/s", "max_link_speed": "32 GT/s"},
        "hardware.host.pcie",
        "hardware.network",
        "performance",
    ),
    "port speed": _of_port(
        {"speed_gbps": "400", "supported_speed_gbps": "400"},
        {"speed_gbps": "100", "supported_speed_gbps": "400"},
        "network",
        "hardware.network",
        "performance",
    ),
    "temperature": _of_gpu(
        {"hotspot_c": "61", "hotspot_limit_c": "95"},
        {"hotspot_c": "97", "hotspot_limit_c": "95"},
        "hardware.gpu.thermal",
    ),
    "volume full": Fault(
        "volume",
        ("/scratch", "/home", "/data", "/opt"),
        {"inodes": ("812", "43", "122", "40")},
        {"use_percent": "41"},
        {"use_percent": "100"},
        ("hardware.disk.full", "platform.storage"),
    ),
    "volume at its capacity": Fault(
        "volume",
        ("/scratch", "/home", "/data", "/opt"),
        {"inodes": ("812", "43", "122", "40")},
        {"used_gib": "410", "capacity_gib": "1024"},
        {"used_gib": "1024", "capacity_gib": "1024"},
        ("hardware.disk.full", "platform.storage"),
    ),
    # one that is not like the others
    "slow clock": _of_gpu({"sm_clock_mhz": "1980"}, {"sm_clock_mhz": "345"}, "hardware.gpu", "performance"),
    "low bandwidth": _of_port({"bandwidth_gbps": "392.1"}, {"bandwidth_gbps": "41.7"}, *PORT, "performance"),
    "slow rank": Fault(
        "rank",
        RANKS,
        {"tokens": ("4096",) * 4},
        {"step_ms": "431.2"},
        {"step_ms": "911.7"},
        ("performance", "hardware"),
    ),
    "slow disk": _of_disk({"write_mb_s": "2912"}, {"write_mb_s": "81"}, *DISK, "performance"),
    # against what is expected
    "below expectation": _of_port(
        {"measured_gbps": "389", "expected_gbps": "380"},
        {"measured_gbps": "52", "expected_gbps": "380"},
        *PORT,
        "performance",
    ),
    # words of a person
    "message full": _of_node(
        {"message": "-"}, {"message": "no space left on device"}, "hardware.disk.full", "platform.storage"
    ),
    "reason off the bus": _of_node(
        {"reason": "none"}, {"reason": "GPU has fallen off the bus"}, "hardware.gpu.off_bus"
    ),
    "event killed": _of_job({"event": "started"}, {"event": "Memory cgroup out of memory"}, "hardware.host.oom"),
    "remark missing file": _of_node(
        {"remark": "none"},
        {"remark": "No such file or directory: data.bin"},
        "user.data",
    ),
}
