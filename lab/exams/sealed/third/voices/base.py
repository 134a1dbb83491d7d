"""What the voices of this set share: a program as a table of formats, and the ways in which kernels are collected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from lab.exams.sealed.common.voice import Frames, Put, Voice
from lab.exams.sealed.third.noise import IDLE

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

_KERNELS = (
    "{host}/dmesg-iso.out|{t.iso},{us}{t.zone} {text}",
    "syslog5424/{host}.log|<{pri}>1 {t.iso}.{us}{t.zone} {host} kernel - - - [{up}] {text}",
    "fluent/kern.tail|[{epoch}, {json}]",
    "journal-export/{host}.json|{journal}",
)
_SERVICES = (
    "{host}/services.out|{t.iso},{us}{t.zone} {who}: {text}",
    "syslog5424/{host}.log|<30>1 {t.iso}.{us}{t.zone} {host} {name} {pid} - - {text}",
    "fluent/kern.tail|[{epoch}, {json}]",
    "journal-export/{host}.json|{journal}",
)


class Spoken(Voice):
    """A program of formats. ``path`` and ``line`` say where a line goes, ``heads`` what a logger puts before it.

    ``booted``: who (``0`` the first rank, ``*`` the first of every machine), level and text. The others are messages
    of the first rank, with the fields of ``told``.
    """

    runs: ClassVar = ("larch-13b", "pangolin", "osprey-2x9b", "delta-r3", "corvus-40b", "mistle", "fjord-7b-sft")
    users: ClassVar = ("ana.ruiz", "tanaka-h", "bkessler", "svc-train", "zhou.l", "c.dubois", "minjae.k", "rpatel7")
    path: ClassVar[str]
    line: ClassVar[str] = "{text}"
    heads: ClassVar[tuple[str, ...]]
    booted: ClassVar[tuple[tuple[str, str, str], ...]]
    stepped: ClassVar[tuple[str, ...]]
    saving: ClassVar[tuple[str, str]]
    evaluating: ClassVar[tuple[str, str]]
    ended: ClassVar[str]

    def fields(self, c: Case, rank: int, dt: float) -> dict[str, Any]:
        """Where and when a line is printed."""
        t, us = c.stamp(c.node(rank), dt)
        u, _ = c.utc(c.node(rank), dt)
        return {
            **{
                "t": t,
                "u": u,
                "ms": f"{us // 1000:03d}",
                "us": f"{us:06d}",
                "ns": f"{us:06d}{c.pids[rank] % 1000:03d}",
            },
            **{"host": c.host(rank), "ip": c.ips[c.node(rank)], "rank": rank, "local": rank % c.per, "job": c.job},
            **{"pid": c.pids[rank], "tid": 140_000_000_000 + c.pids[rank] * 4096, "node": c.node(rank), "run": c.run},
        }

    def told(self, c: Case, rank: int) -> dict[str, Any]:
        """What a message says of the run."""
        return {
            **self.fields(c, rank, 0.0),
            **{"n": c.n, "total": c.total, "loss": c.loss(), "grad": c.gnorm * c.rng.uniform(0.3, 0.9)},
            **{"took": c.took, "tok": c.world * 8192 / c.took, "world": c.world, "count": len(c.nodes), "per": c.per},
            **{"lr": 3e-4 * (1 - c.n / (c.total + 1)), "mem": 41 + c.dialect % 30, "pct": 100 * c.n // c.total},
            **{"eta": int((c.total - c.n) * c.took), "epoch": c.n / 9000, "seen": c.n * c.world * 2, "d": c.dialect},
        }

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        told = self.fields(c, rank, dt)
        return self.path.format(**told), self.line.format(**told, text=text)

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        scheme = self.heads[c.dialect % len(self.heads)]
        of_text = sum(map(ord, text[:3]))
        module, number = ("loop", "ckpt", "input", "mesh")[of_text % 4], 40 + of_text % 700
        return scheme.format(**self.fields(c, rank, dt), level=self.level(level), mod=module, no=number, text=text)

    def kernel(self, c: Case, node: int, text: str, dt: float) -> Put:
        return self._system(c, node, "kernel[0]", text, dt, _KERNELS)

    def service(self, c: Case, node: int, who: str, text: str, dt: float) -> Put:
        return self._system(c, node, who, text, dt, _SERVICES)

    def _system(self, c: Case, node: int, who: str, text: str, dt: float, schemes: tuple[str, ...]) -> Put:
        t, us = c.stamp(node, dt)
        name, _, pid = who.rstrip("]").partition("[")
        at, host = c.t0 + c.now + dt + c.skew[node], c.nodes[node]
        journal = {"__REALTIME_TIMESTAMP": str(int(at * 1e6)), "_HOSTNAME": host, "SYSLOG_IDENTIFIER": name}
        told = {
            **{"t": t, "us": f"{us:06d}", "host": host, "up": f"{c.boot_at[node] + c.now + dt:.6f}", "who": who},
            **{"text": text, "name": name, "pid": pid or "-", "pri": 3 if "rror" in text else 4, "epoch": f"{at:.9f}"},
            "json": json.dumps({"hostname": host, "ident": name, "message": text}, ensure_ascii=False),
            "journal": json.dumps({**journal, "MESSAGE": text, "_PID": pid}, ensure_ascii=False),
        }
        path, _, line = schemes[c.dialect % len(schemes)].partition("|")
        return path.format(**told), line.format(**told)

    def boot(self, c: Case) -> None:
        for who, level, text in self.booted:
            c.wait(0.5, 4)
            for r in c.firsts() if who == "*" else [0]:
                c.log(r, text.format(**self.told(c, r)), level, dt=c.rng.random())
        c.wait(10, 60)

    def progress(self, c: Case, rank: int) -> None:
        for text in self.stepped:
            c.log(rank, text.format(**self.told(c, rank)))

    def save(self, c: Case, is_begin: bool) -> None:
        c.log(0, self.saving[not is_begin].format(**self.told(c, 0)))

    def evaluate(self, c: Case, is_begin: bool) -> None:
        c.log(0, self.evaluating[not is_begin].format(**self.told(c, 0)))

    def finish(self, c: Case) -> None:
        c.log(0, self.ended.format(**self.told(c, 0)))
        c.wait(3, 9)
        self.sched.closed(c, "done")

    def idle(self) -> tuple[str, ...]:
        return (*IDLE["any"], *IDLE[self.stack], *self.quirks)


def python_frames(program: str, home: str, step: str, site: str = "/opt/conda/lib/python3.12/site-packages") -> Frames:
    """Frames of a program: ``program`` its file, ``home`` its package, ``step`` the function of an iteration."""
    return {
        "main": [
            f"{program}|{len(program) + 20}|<module>|sys.exit(run(parse()))",
            f"{home}/entry.py|88|run|return loop.fit(plan)",
        ],
        "step": [f"{home}/loop.py|271|{step}|out = plan.forward(chunk)", f"{home}/layers.py|133|forward|x = block(x)"],
        "reduce": [f"{home}/loop.py|288|{step}|mesh.reduce(plan.grads)", f"{home}/mesh.py|97|reduce|pending.wait()"],
        "backward": [f"{home}/loop.py|280|{step}|plan.backward(out)"],
        "data": [
            f"{home}/loop.py|262|{step}|chunk = next(feed)",
            f"{home}/input.py|207|__next__|return self.pack(self.read())",
        ],
        "save": [
            f"{home}/loop.py|331|keep|ckpt.write(plan.state, n)",
            f"{home}/ckpt.py|174|write|writer.flush()",
        ],
        "load": [
            f"{home}/loop.py|201|restore|plan.state = ckpt.read(path)",
            f"{home}/ckpt.py|118|read|return reader.open(path)",
        ],
        "init": [f"{home}/mesh.py|41|join|group = connect(address, size, patience)"],
        "device": [f"{home}/mesh.py|29|devices|return runtime.local_devices()"],
        "eval": [f"{home}/judge.py|66|score|table[name] = metric(out)"],
        "config": [f"{home}/plan.py|52|from_file|return check(merged)", f"{site}/pydantic/main.py|253|__init__|raise"],
    }
