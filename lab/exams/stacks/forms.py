"""Dumps as the tools write them, and bundles as launchers join them.

A process is a main stack (``function file`` lines, innermost first), helper threads, and native frames on top of the
main thread. Versions of one tool differ; each writer names the version it imitates.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.exams.stacks.frames import KIND, Stack

PIN = (
    "select selectors.py",
    "wait multiprocessing/connection.py",
    "get multiprocessing/queues.py",
    "do_one_step torch/utils/data/_utils/pin_memory.py",
    "_pin_memory_loop torch/utils/data/_utils/pin_memory.py",
    "run threading.py",
    "_bootstrap_inner threading.py",
    "_bootstrap threading.py",
)
MONITOR = (
    "wait threading.py",
    "wait threading.py",
    "run tqdm/_monitor.py",
    "_bootstrap_inner threading.py",
    "_bootstrap threading.py",
)
VENV = "/opt/venv/lib/python3.10/site-packages/"
LOOP = ("__GI___clone3 libc.so.6", "start_thread libc.so.6")


@dataclass
class Proc:
    """One process of one rank."""

    pid: int
    main: Stack
    kind: str = "comm"
    command: str = "/usr/bin/python3 -u train.py"
    parent: int = 0
    #: other threads than the main one: name and stack
    threads: dict[str, Stack] = field(default_factory=lambda: {"Thread-1 (_pin_memory_loop)": PIN, "Thread-2": MONITOR})
    gc: bool = False
    gil: bool = False


def split(frame: str) -> tuple[str, str]:
    name, _, path = frame.partition(" ")
    return name, path


def line(frame: str, salt: int = 0) -> int:
    """A stable line for a frame."""
    return 10 + sum(map(ord, frame)) * 7 % 1900 + salt


def full(path: str) -> str:
    return path if path.startswith(("<", "/")) else VENV + path


def pyspy(p: Proc, *, native: bool = False, local: bool = False) -> str:
    """``py-spy dump`` 0.3/0.4."""
    rows = [f"Process {p.pid}: {p.command}"]
    rows += ["Python v3.10.12 (/usr/bin/python3.10)"]
    rows += [f"Parent Process {p.parent}: python -m torch.distributed.run"] * bool(p.parent)
    rows.append("")
    state = "active+gil" if p.gil else "active" if p.kind in {"cuda", "spin", "gc"} else "idle"
    stacks = {"MainThread": p.main, **p.threads}
    for at, (name, frames) in enumerate(stacks.items()):
        rows.append(f'Thread {p.pid + at * 37} ({state if not at else "idle"}): "{name}"')
        if native and not at:
            rows += [f"    {f} ({lib})" for f, lib in map(split, KIND[p.kind])]
        for frame in frames:
            name, path = split(frame)
            rows.append(f"    {name} ({path}:{line(frame)})")
            if local:
                rows += [
                    "        Arguments:",
                    f"            self: <Object at 0x7f{p.pid:08x}>",
                    "            group: None",
                ]
        if native:
            rows.append(f"    0x7f{p.pid:010x} (libc.so.6)")
    return "\n".join(rows) + "\n"


def pyspy_json(p: Proc, *, old: bool = False) -> str:
    """``py-spy dump --json``; ``old``: 0.3, which had no ``is_entry``. Threads come in reverse."""
    threads = []
    for at, (name, frames) in enumerate({"MainThread": p.main, **p.threads}.items()):
        rows = []
        for frame in frames:
            func, path = split(frame)
            row = {
                "name": func,
                "filename": full(path),
                "module": None,
                "short_filename": path,
                "line": line(frame),
                "locals": None,
            }
            rows.append(row if old else {**row, "is_entry": False, "is_shim_entry": False})
        head = {"pid": p.pid, "thread_id": p.pid + at, "thread_name": name, "os_thread_id": p.pid + at}
        threads.append(
            {
                **head,
                "active": p.kind == "spin" and not at,
                "owns_gil": p.gil and not at,
                "frames": rows,
                "process_info": None,
            }
        )
    return json.dumps(threads[::-1], indent=None if old else 2)


def faulthandler(p: Proc, *, modern: bool = False) -> str:
    """``dump_traceback_later`` of 3.9; ``modern``: 3.14, which names threads and adds the C stack."""
    out = ["Timeout (0:30:00)!"]
    stacks = [*p.threads.items(), ("", p.main)]
    for at, (name, frames) in enumerate(stacks):
        who = "Current thread" if modern and at == len(stacks) - 1 else "Thread"
        label = f" [{name[:15]}]" if modern and name else " [python3]" if modern else ""
        out.append(f"{who} 0x00007f{p.pid + at:010x}{label} (most recent call first):")
        if p.gc and at == len(stacks) - 1:
            out.append("  Garbage-collecting")
        for frame in frames:
            func, path = split(frame)
            out.append(f'  File "{full(path)}", line {line(frame)} in {func}')
        out.append("")
    if modern:
        out.append("Current thread's C stack trace (most recent call first):")
        out += [
            f'  Binary file "/lib/x86_64-linux-gnu/{lib}", at {f}+0x4b [0x7f{p.pid:010x}]'
            for f, lib in map(split, KIND[p.kind])
        ]
    out.append("Extension modules: numpy._core._multiarray_umath, torch._C, yaml._yaml (total: 3)")
    return "\n".join(out) + "\n"


def pystack(p: Proc, *, native: bool = False) -> str:
    """``pystack remote [--native]``; most recent call last."""
    out = []
    for at, (_, frames) in enumerate([*p.threads.items(), ("MainThread", p.main)]):
        is_main = at == len(p.threads)
        flags = ",".join(["Has the GIL"] * (p.gil and is_main) + ["Garbage collecting"] * (p.gc and is_main))
        out.append(
            f"Traceback for thread {p.pid + (0 if is_main else 9 + at)} (python3) [{flags}] (most recent call last):"
        )
        if native:
            out += [f'    (C) File "./nptl/x.c", line 442, in {f} (/usr/lib/{lib})' for f, lib in map(split, LOOP)]
        for frame in reversed(frames):
            func, path = split(frame)
            out += [f'    (Python) File "{full(path)}", line {line(frame)}, in {func}', f"        {func}(x)"]
        if native and is_main:
            out += [
                f'    (C) File "???", line 0, in {f} (/usr/lib/{lib})' for f, lib in map(split, reversed(KIND[p.kind]))
            ]
        out.append("")
    return "\n".join(out)


def gdb(p: Proc, *, python: bool = False) -> str:
    """``gdb -p PID -batch -ex 'thread apply all bt'``; ``python``: ``thread apply all py-bt``."""
    out = [f"[New LWP {p.pid + 11}]", f"[New LWP {p.pid + 12}]", "[Thread debugging using libthread_db enabled]"]
    out += ['Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".']
    if python:
        out += [
            "",
            f'Thread 1 (Thread 0x7f{p.pid:010x} (LWP {p.pid}) "python3"):',
            "Traceback (most recent call first):",
        ]
        for frame in p.main:
            func, path = split(frame)
            out += [f'  File "{full(path)}", line {line(frame)}, in {func}', f"    {func}(x)"]
        return "\n".join(out) + "\n"
    out += ["", f'Thread 2 (Thread 0x7f{p.pid + 11:010x} (LWP {p.pid + 11}) "pt_nccl_watchdg"):']
    names = ["__futex_abstimed_wait_common64", "pthread_cond_clockwait", "c10d::ProcessGroupNCCL::Watchdog::runLoop"]
    out += [f"#{i}  0x{p.pid:016x} in {f} () from /usr/lib/libtorch_cuda.so" for i, f in enumerate(names)]
    out += ["", f'Thread 1 (Thread 0x7f{p.pid:010x} (LWP {p.pid}) "python3"):']
    frames = [
        *map(split, KIND[p.kind]),
        ("_PyEval_EvalFrameDefault", "libpython3.10.so.1.0"),
        ("Py_BytesMain", "libpython3.10.so.1.0"),
    ]
    for i, (f, lib) in enumerate(frames):
        out.append(
            f"#{i}  0x{p.pid + i:016x} in {f} () from /usr/lib/x86_64-linux-gnu/{lib}"
            if i % 2 or i
            else f"#0  {f} () at ../sysdeps/x.c:38"
        )
    out += [f"[Inferior 1 (process {p.pid}) detached]"]
    return "\n".join(out) + "\n"


TOOLS: dict[str, Callable[[Proc], str]] = {
    "pyspy": pyspy,
    "pyspy-native": lambda p: pyspy(p, native=True),
    "pyspy-locals": lambda p: pyspy(p, local=True),
    "json-0.3": lambda p: pyspy_json(p, old=True),
    "json-0.4": pyspy_json,
    "faulthandler-3.9": faulthandler,
    "faulthandler-3.14": lambda p: faulthandler(p, modern=True),
    "pystack": pystack,
    "pystack-native": lambda p: pystack(p, native=True),
    "gdb": gdb,
    "gdb-py": lambda p: gdb(p, python=True),
}


def rule(text: str, width: int = 16) -> str:
    return f"{'-' * width}\n{text}\n{'-' * width}\n"


def bundle(
    form: str, texts: dict[int, str], node_of: dict[int, str], pids: dict[int, int], rng: random.Random
) -> dict[str, str]:
    """Files by path. ``texts`` holds the dump of each rank; processes of a node follow each other."""
    by_node: dict[str, list[int]] = {}
    for rank in sorted(texts):
        by_node.setdefault(node_of[rank], []).append(rank)
    whole = {n: "\n".join(texts[r] for r in ranks) for n, ranks in by_node.items()}
    if form == "host/rank":
        return {f"dumps/{node_of[r]}/rank_{r}.txt": t for r, t in texts.items()}
    if form == "host/pid":
        return {f"dumps/{node_of[r]}/{pids[r]}.txt": t for r, t in texts.items()}
    if form == "host-rank.name":
        return {f"pyspy-{node_of[r]}-rank{r}.dump": t for r, t in texts.items()}
    if form == "rank only":
        return {f"stack_rank{r:03d}.log": t for r, t in texts.items()}
    if form == "srun %N":
        return {f"trace-{n}.out": t for n, t in whole.items()}
    if form == "srun --label":
        width = len(str(max(texts)))
        return {"all.out": "".join(f"{r:>{width}}: {x}\n" for r, t in texts.items() for x in t.splitlines())}
    if form == "kubectl --prefix":
        return {"pods.log": "".join(f"[pod/{n}/pytorch] {x}\n" for n, t in whole.items() for x in t.splitlines())}
    if form == "dshbak":
        return {"all.txt": "".join(rule(n) + t for n, t in whole.items())}
    if form == "clush -b":
        return {"all.txt": "".join(rule(n, 15) + t for n, t in whole.items())}
    if form == "ansible":
        return {"run.txt": "".join(f"{n} | CHANGED | rc=0 >>\n{t}\n" for n, t in whole.items())}
    if form == "kubectl exec":
        return {"exec.txt": "".join(f"=== {n} ===\n{t}\n" for n, t in whole.items())}
    if form == "mpirun --tag-output":
        return {"mpi.txt": "".join(f"[1,{r}]<stdout>:{x}\n" for r, t in texts.items() for x in t.splitlines())}
    if form == "pdsh":
        left = {n: t.splitlines() for n, t in whole.items()}
        rows = []
        while left:
            n, much = rng.choice(list(left)), rng.randint(1, 40)
            rows += [f"{n}: {x}\n" for x in left[n][:much]]
            left[n] = left[n][much:]
            if not left[n]:
                del left[n]
        return {"pdsh.txt": "".join(rows)}
    raise ValueError(form)


BUNDLES = (
    "host/rank",
    "host/pid",
    "host-rank.name",
    "rank only",
    "srun %N",
    "srun --label",
    "kubectl --prefix",
    "dshbak",
    "clush -b",
    "ansible",
    "kubectl exec",
    "mpirun --tag-output",
    "pdsh",
)
