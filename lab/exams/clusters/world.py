"""Larger clusters: the ordinary messages of healthy runs, kernel logs and schedulers of many kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.exams.clusters.voices import PATIENCE
from lab.exams.courses.collectors import COLLECTORS, Collector, Put
from lab.exams.courses.world import Line, World

_NAMES = (
    "gn{rack:02d}{slot:02d}",
    "nid{number:06d}",
    "ip-10-4-{rack}-{slot}",
    "r{rack:02d}-n{slot:02d}",
    "a3-pool-{number}",
    "dgx-{rack}-{slot:02d}",
)
_BUSES = ("19", "3b", "4c", "5d", "9b", "bb", "cb", "db")
#: The launcher of the jobs of a voice.
_SCHEDULERS = {"llmc": "mpi", "nxd": "house", "kontor": "house", "levanter": "k8s", "pulse": "k8s", "xingyun": "k8s"}

_TORCH_NOISE = (
    "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:87: FutureWarning: `torch.cpu.amp.autocast"
    "(args...)` is deprecated. Please use `torch.amp.autocast('cpu', args...)` instead.\n"
    "  with torch.cpu.amp.autocast():",
    "[W{mmdd} {hms} socket.cpp:697] [c10d] The client socket cannot be initialized to connect to [{first}]:29500 "
    "(errno: 97 - Address family not supported by protocol).",
    "{node}:{pid}:{tid} [{local}] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
    "Loading checkpoint shards:   0%|          | 0/30 [00:00<?, ?it/s]\rLoading checkpoint shards:  50%|█████     | "
    "15/30 [00:06<00:06,  2.4{digit}it/s]\rLoading checkpoint shards: 100%|██████████| 30/30 [00:1{digit}<00:00,  "
    "2.4{digit}it/s]",
)
_NOISE = {
    "nvidia": _TORCH_NOISE,
    "amd": (*_TORCH_NOISE, "MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx90a6e.kdb"),
    "trainium": (
        "{neuron} {pid}:{tid} WARN  NRT:nrt_init    OFI plugin: falling back to default provider settings",
        "WARNING:root:Found CUDA-only argument fused=True, ignored on this backend",
    ),
    "tpu": (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "W{mmdd} {hms} {pid} cpp_gen_intrinsics.cc:74] Empty bitcode string provided for eigen.",
    ),
    "gaudi": (
        "[{hms}][PT_BRIDGE][warning][tid:{tid}] environment PT_HPU_LAZY_MODE is deprecated",
        "/usr/lib/python3.10/warnings.py:511: UserWarning: operator fell back to CPU: aten::nonzero\n"
        "  warnings.warn(msg)",
    ),
    "ascend": (
        "Warning: The oldest driver version that this toolkit was tested with is 24.1, found 24.0.rc3",
        "/usr/local/lib/python3.10/site-packages/torch_npu/utils/storage.py:38: UserWarning: TypedStorage is "
        "deprecated.\n  if self.device.type != 'cpu':",
    ),
}
_PASSING = (
    "wandb: Network error (ReadTimeout), entering retry loop.",
    "urllib3.connectionpool: Retrying (Retry(total=4, connect=None)) after connection broken by 'ReadTimeoutError': "
    "/api/metrics/push",
    "gc: collected 41822{digit} objects in 2.{digit} s (generation 2)",
    "Grad overflow on this micro batch, reducing loss scale from 131072 to 65536 and skipping the update",
    "WARNING token cache is 9{digit}% full, evicting oldest shards",
    "tokenizing validation split:  4{digit}%|████▏     | 4{digit}12/9977 [00:0{digit}<00:09, 581.6{digit}docs/s]",
)
_CHATTER = (
    "perf: interrupt took too long (3{num}1 > 3127), lowering kernel.perf_event_max_sample_rate to 63000",
    "TCP: request_sock_TCP: Possible SYN flooding on port 9400. Sending cookies.",
    "audit: backlog limit exceeded",
    "EDAC MC0: {digit} CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (corrected)",
    "systemd-journald[{num}1]: Data hash table of /run/log/journal has a fill level at 75.0, suggesting rotation.",
    "overlayfs: fs on '/var/lib/containerd/l/{hex}' does not support file handles, falling back to xino=off.",
    "node_exporter[{num}41]: segfault at 0 ip 00007f{hex} sp 00007ffd{hex} error 4 in libc.so.6[7f{hex}+195000]",
)


#: A course, its machines (0 for 16) and the voices that can write it.
type Entry = tuple[Callable[[Fresh], None], int, tuple[str, ...]]


def mpirun(w: World, line: Line) -> Put:
    """One file as Open MPI tags its output."""
    stream = "stdout" if line.stream == "out" else "stderr"
    return f"train-{w.job}.out", f"[1,{line.rank}]<{stream}>: {line.text}"


def plain(w: World, line: Line) -> Put:
    """One file as Slurm writes it without labels."""
    return f"slurm-{w.job}.out", line.text


WAYS: dict[str, Collector] = {**COLLECTORS, "mpirun": mpirun, "plain": plain}


#: A moment as libraries print it.
_TIMES = {
    "mmdd": "%m%d",
    "hms": "%H:%M:%S.%f",
    "iso": "%Y-%m-%d %H:%M:%S",
    "ascend": "%Y-%m-%d-%H:%M:%S.%f",
    "neuron": "%Y-%b-%d %H:%M:%S.%f",
}


class _Named(dict[str, object]):
    """What texts may name, and the moment, which is spelled only if a text asks for it: most name none."""

    def __init__(self, names: dict[str, object], here: datetime) -> None:
        super().__init__(names)
        self._here = here

    def __missing__(self, name: str) -> str:
        return self._here.strftime(_TIMES[name])


@dataclass
class Fresh(World):
    """A job of 16 or more machines of eight (four above 64) accelerators, one rank each."""

    def __post_init__(self) -> None:
        count, self.size = self.size or 16, 12
        super().__post_init__()
        rng, self.size = self.rng, count
        self.per = 8 if count <= 64 else 4
        self.world = self.per * count
        below = 16 if count > 16 else 4
        places = [(3 + k // below, 1 + k % below) for k in range(count)]
        pattern = rng.choice(_NAMES)
        self.nodes = [pattern.format(rack=r, slot=s, number=1000 + r * 40 + s) for r, s in places]
        self.ips = [f"10.4.{r}.{s}" for r, s in places]
        self.leaves = [f"leaf-{r:02d}" for r, _ in places]
        self.pids = [rng.randrange(3000, 90000) for _ in range(self.world)]
        self.victim = rng.randrange(1, count)
        self.rank = self.victim * self.per + rng.randrange(self.per)
        self.reporter = self.voice.reporter % self.world
        if self.voice.name == "pulse":
            self.zone = 0  # its stamps are seconds since 1970
        self.sched = _SCHEDULERS.get(self.voice.name, "slurm")
        self.kernel_style = rng.choice(("iso", "dmesg", "dmesg_t", "syslog"))
        self.uptime = [rng.uniform(9e4, 4e6) for _ in range(count)]
        self.wait_s = PATIENCE.get(self.voice.name, 600.0)

    # ---- writers

    def names(self, rank: int) -> dict[str, object]:
        """The names that texts may contain; ``peer`` is the next machine of the ring."""
        after = (rank // self.per + 1) % len(self.nodes)
        return {
            **super().names(rank),
            "pci": f"0000:{_BUSES[rank % self.per]}:00",
            "tid": self.pids[rank] + 217,
            "peer": self.nodes[after],
            "peerip": self.ips[after],
            "peerrank": (rank + self.per) % self.world,
            "port": 40000 + self.pids[rank] % 9000,
            "seq": 7 + 6 * (self.n + 1 - self.first_n),
            "lastseq": 6 + 6 * (self.n + 1 - self.first_n),
        }

    def here(self, at: float, node: int) -> datetime:
        """A moment by the clock of a machine."""
        return datetime.fromtimestamp(self.t0 + at + self.skew.get(node, 0.0) + self.zone * 3600, UTC)

    def raw(self, at: float, rank: int, text: str, role: str = "", tid: str = "") -> None:
        """The output of a library, on one line or several; a line after ``~`` is context of a root, not a root line."""
        node = rank // self.per
        if node in self.gone:
            return
        for row in text.format_map(_Named(self.names(rank), self.here(at, node))).split("\n"):
            part = "context" if role == "root" and row.startswith("~") else role
            self.lines.append(Line(at, node, rank, "err", row.removeprefix("~"), part, tid))

    def boom(
        self, at: float, rank: int, error: str, role: str = "root", tid: str = "error", where: str = "step"
    ) -> None:
        """An exception with its traceback; newer launchers put the rank before each line."""
        head = "[rank{rank}]: " if self.voice.name in ("nanotron", "olmo", "pulse") else ""
        rows = [
            "~Traceback (most recent call last):",
            '~  File "/workspace/pretrain/train.py", line 418, in <module>',
            "~    main(parse())",
            f'~  File "/workspace/pretrain/engine/{where}.py", line {151 + len(where)}, in {where}',
            f"~    return self._{where}(batch)",
            *error.split("\n"),
        ]
        text = "\n".join("~" * row.startswith("~") + head + row.removeprefix("~") for row in rows)
        self.raw(at, rank, text, role, tid)

    def kernel(self, at: float, node: int, text: str, role: str = "", tid: str = "", rank: int | None = None) -> None:
        """The output of a machine's kernel; ``rank``: the rank of the device."""
        if node in self.gone:
            return
        for row in text.format(**self.names(node * self.per if rank is None else rank)).split("\n"):
            part = "context" if role == "root" and row.startswith("~") else role
            self.lines.append(Line(at, node, None, "dmesg", row.removeprefix("~"), part, tid))

    def launcher(self, at: float, text: str, role: str = "", tid: str = "") -> None:
        """The output of the scheduler or its operator; braces are literal."""
        for row in text.replace("{job}", self.job).split("\n"):
            self.lines.append(Line(at, None, None, "control", row, role, tid))

    def event(self, at: float, kind: str, reason: str, thing: str, text: str, role: str = "", tid: str = "") -> None:
        """An event of Kubernetes."""
        self.launcher(at, f"{kind:9}{reason:26}{thing:28}{text}", role, tid)

    def pod(self, node: int) -> str:
        """The pod on a machine."""
        return f"pod/train-{self.job}-worker-{node}"

    # ---- the usual course

    def start(self, until: str = "training", without: Iterable[int] = ()) -> None:
        """Everything before the first iteration, with the warnings that every healthy run prints."""
        begin, without = self.now, set(without)
        for node in range(len(self.nodes)):
            if node not in without and self.sched == "k8s":
                self.event(begin, "Normal", "Scheduled", self.pod(node), f"assigned to {self.nodes[node]}")
        super().start(until, without)
        for rank in self.ranks(without):
            for text in self.rng.sample(_NOISE[self.voice.vendor], 1 if self.world > 512 else 2):
                self.raw(begin + 5 + self.rng.random() * (self.now - begin - 5), rank, text)
            if self.voice.vendor in ("nvidia", "amd") and until not in ("launch", "rendezvous"):
                bus = f"{_BUSES[rank % self.per]}000"
                self.raw(
                    begin + 21 + self.rng.random(),
                    rank,
                    "{node}:{pid}:{tid} [{local}] NCCL INFO comm 0x55{hex} rank {rank} nranks {world} cudaDev {local} "
                    f"busId {bus} - Init COMPLETE",
                )
        for node in range(len(self.nodes)):
            if self.rng.random() < 0.3:
                self.kernel(begin - self.rng.random() * 3000, node, self.rng.choice(_CHATTER))

    def train(self, steps: int, slower: float = 1.0, save_every: int = 0, is_told: bool = True) -> None:
        """Iterations, with passing problems."""
        low = self.now
        super().train(steps, slower, save_every, is_told)
        if steps < 8:
            return
        alive = self.ranks(self.gone)
        for _ in range(min(3 + len(self.nodes) // 16, 9)):
            self.raw(
                low + (self.now - low) * self.rng.random() * 0.9, self.rng.choice(alive), self.rng.choice(_PASSING)
            )
        for _ in range(2 + len(self.nodes) // 16):
            at, node = low + (self.now - low) * self.rng.random(), self.rng.randrange(len(self.nodes))
            self.kernel(at, node, self.rng.choice(_CHATTER))

    def beat(self, took: float) -> None:
        """One progress line; from the first rank of each machine if all of them print in this voice."""
        text = self.voice.progress(self.n, took, 2.9 - 0.003 * (self.n - self.first_n))
        self.told_n = self.n
        everyone = self.voice.is_every_rank and len(self.nodes) <= 128
        for rank in range(0, self.world, self.per) if everyone else [self.reporter]:
            self.say(self.now + rank * 1e-4, rank, text)

    def done(self) -> None:
        """The end of a job without a failure."""
        for rank in self.ranks():
            self.say(self.now + 3 + self.rng.random(), rank, self.voice.finish)
        if self.sched == "k8s":
            self.event(self.now + 9, "Normal", "JobSucceeded", f"job/train-{self.job}", "Job completed successfully.")
        elif self.sched == "house":
            self.launcher(self.now + 9, "run {job}: all workers left with status 0")

    def wait_out(self, at: float, without: Iterable[int] = (), stuck: Iterable[int] = ()) -> float:
        """All ranks that wait in a collective since ``at`` give up, except the given machines and ranks; returns the
        time.
        """
        stuck = set(stuck)
        for rank in self.ranks(without):
            when = at + self.wait_s + self.rng.random() * 2
            for j, text in enumerate(() if rank in stuck else self.voice.timeout):
                self.raw(when + 0.05 * j, rank, text, "secondary", f"timeout{j}")
        return at + self.wait_s + 3

    def over(self, at: float, text: str = "", first: int | None = None) -> None:
        """The scheduler ends the job after the rank ``first`` failed, in the words of its kind."""
        last = self.rank if first is None else first
        node = self.nodes[last // self.per]
        moment = f"{datetime.fromtimestamp(self.t0 + at + self.zone * 3600, UTC):%Y-%m-%dT%H:%M:%S}"
        if self.sched == "slurm":
            said = [f"srun: error: {node}: task {last}: Exited with exit code 1"]
            said += ["srun: Job step aborted: Waiting up to 92 seconds for job step to finish."]
            said += [f"slurmstepd: error: *** STEP {self.job}.0 ON {self.nodes[0]} CANCELLED AT {moment} ***"]
        elif self.sched == "mpi":
            said = ["-" * 74, "Primary job  terminated normally, but 1 process returned", "a non-zero exit code. Per"]
            said[2] += " user-direction, the job has been aborted."
            said += ["-" * 74]
        elif self.sched == "k8s":
            pod = self.pod(last // self.per)
            self.event(
                at, "Warning", "BackOff", pod, "Back-off restarting failed container trainer", "secondary", "off"
            )
            said = [f"{'Warning':9}{'JobFailed':26}job/train-{self.job}  Job is failed, 1 worker replica(s) failed."]
        else:
            said = [f"run {self.job}: worker on {node} left with status 1", f"run {self.job}: stopping the others"]
        for k, row in enumerate([text] if text else said):
            self.launcher(at + 0.01 * k, row, "secondary", f"over{k}")
        if self.sched == "slurm":
            for k in range(len(self.nodes)):
                tasks = f"{k * self.per}-{(k + 1) * self.per - 1}"
                self.launcher(at + 2, f"srun: error: {self.nodes[k]}: tasks {tasks}: Terminated", "secondary", "term")


def collector(way: Collector, style: str) -> Collector:
    """``way`` for the output of ranks; another style for kernels; a separate file for the scheduler."""

    def put(w: World, line: Line) -> Put:
        assert isinstance(w, Fresh)
        at = datetime.fromtimestamp(w.t0 + line.at + w.skew.get(line.node or 0, 0.0), UTC)
        if line.stream == "switch":
            return f"network/{w.leaves[w.victim]}.log", f"{at:%b %d %H:%M:%S} {w.leaves[w.victim]} {line.text}"
        if line.stream == "control":
            if w.sched == "slurm":
                return f"slurm-{w.job}.err", line.text
            if w.sched == "mpi":
                return mpirun(w, line)[0], line.text
            if w.sched == "k8s":
                return "events.txt", f"{at:%Y-%m-%dT%H:%M:%S}Z   {line.text}"
            return "control.log", f"{at:%Y-%m-%d %H:%M:%S} UTC runner: {line.text}"
        if line.stream != "dmesg":
            return way(w, line)
        assert line.node is not None
        node, since = w.nodes[line.node], f"[{w.uptime[line.node] + line.at:12.6f}]"
        if style == "dmesg":
            return f"dmesg/{node}.txt", f"{since} {line.text}"
        if style == "dmesg_t":
            return f"sys/{node}-dmesg.log", f"[{at:%a %b %d %H:%M:%S %Y}] {line.text}"
        if style == "syslog":
            return f"var/log/{node}/messages", f"{at:%b %d %H:%M:%S} {node} kernel: {since} {line.text}"
        return f"sys/{node}.kern.log", f"{at:%Y-%m-%dT%H:%M:%S.%f}+00:00 {node} kernel: {line.text}"

    return put
