"""Lines of made-up systems, each with the message that it comes from: the truth of grouping, by construction.

A system is one file: weight, tab, message. Parameters of a message stand in braces:

``{n}`` ``{f}`` ``{hex}`` ``{ip}`` ``{uuid}`` ``{ver}`` ``{dur}``  numbers of all kinds
``{user}`` ``{host}`` ``{noun}`` ``{name}`` ``{cls}`` ``{path}`` ``{file}`` ``{id}``  words: of people, machines, things
``{bool}`` ``{one:up,down,idle}``  one word of a few
``{words:2-5}``  free text
``{list:user:0-4:, }``  as many parameters of one kind, joined by the text after the last colon
``[[ … ]]``  a part that half of the lines leave out

Same arguments, same lines.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

_USERS, _NOUNS, _FREE, _CLASSES = (
    line.split()
    for line in (
        "root alice bob svc_train jdoe mchen postgres nobody ana-maria kowalski deploy ubuntu airflow ops carla tim",
        "shard cache bucket stream replica tokenizer segment index manifest sampler buffer lease quorum snapshot "
        "planner kernel graph lane router broker gateway session volume queue scheduler allocator checkpoint "
        "partition cursor",
        "the disk was replaced by night shift please ignore until Monday no answer from remote side retry later "
        "unknown reason quota reached for this project moved to rack seven operator asked maintenance window "
        "connection lost",
        "TaskRunner BlockStore LeaseManager HeartbeatSender RpcServer QueueWorker ConfigLoader IndexBuilder",
    )
)
_PACKAGES = ("org.acme.store", "io.corp.sched", "com.example.net.rpc", "net.lab.train.core")
_ENDS = ("log", "json", "yaml", "bin", "parquet", "conf", "so", "pt")


def _parameter(kind: str, rng: random.Random) -> str:
    name, _, rest = kind.partition(":")
    if name == "one":
        return rng.choice(rest.split(","))
    if name == "words":
        low, high = rest.split("-")
        return " ".join(rng.choices(_FREE, k=rng.randint(int(low), int(high))))
    if name == "list":
        inner, sizes, between = rest.split(":", 2)
        low, high = sizes.split("-")
        return between.join(_parameter(inner, rng) for _ in range(rng.randint(int(low), int(high))))
    noun, digits = rng.choice(_NOUNS), rng.randrange(10 ** rng.randint(1, 6))
    made: dict[str, Callable[[], str]] = {
        "n": lambda: str(digits),
        "f": lambda: f"{rng.random() * 10 ** rng.randint(0, 3):.{rng.randint(1, 4)}f}",
        "hex": lambda: f"0x{rng.getrandbits(32):x}",
        "ip": lambda: ".".join(str(rng.randrange(1, 255)) for _ in range(4)),
        "uuid": lambda: "-".join(f"{rng.getrandbits(4 * k):0{k}x}" for k in (8, 4, 4, 4, 12)),
        "ver": lambda: f"{rng.randrange(9)}.{rng.randrange(30)}.{rng.randrange(9)}",
        "dur": lambda: f"{rng.randrange(1, 900)}{rng.choice(('ms', 's', ' ms', 'us'))}",
        "user": lambda: rng.choice(_USERS),
        "host": lambda: rng.choice((f"node{digits % 64}", f"gw-{noun}", f"{noun}.lab.local", f"hgx-{digits % 99:02d}")),
        "noun": lambda: noun,
        "name": lambda: noun + rng.choice(("", f"_{rng.choice(_NOUNS)}", f"-{rng.choice(_NOUNS)}", str(digits % 40))),
        "cls": lambda: f"{rng.choice(_PACKAGES)}.{rng.choice(_CLASSES)}",
        "path": lambda: (
            f"/{'/'.join(rng.choices(_NOUNS, k=rng.randint(1, 4)))}{rng.choice(('', f'/{digits}', '.tmp'))}"
        ),
        "file": lambda: f"{noun}{rng.choice(('', '-final', str(digits % 9)))}.{rng.choice(_ENDS)}",
        "id": lambda: f"{rng.choice(('task', 'job', 'blk', 'att'))}_{rng.getrandbits(32):08x}_{digits}",
        "bool": lambda: rng.choice(("true", "false")),
    }
    return made[name]()


def fill(message: str, rng: random.Random) -> str:
    """One line of a message."""
    text = re.sub(r"\[\[(.*?)\]\]", lambda part: part.group(1) if rng.random() < 0.5 else "", message)
    return re.sub(r"\{([^{}]+)\}", lambda one: _parameter(one.group(1), rng), text)


def systems() -> list[str]:
    """Names of all systems."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.tsv"))


def lines(system: str, count: int = 2_000, seed: int = 1) -> tuple[list[str], list[str]]:
    """``count`` lines of a system and the message that each comes from; every message comes at least once."""
    rng = random.Random(f"{system}-{seed}")
    rows = (Path(__file__).parent / f"{system}.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [row.split("\t", 1) for row in rows if row and not row.startswith("#")]
    messages = [text for _, text in pairs]
    chosen = messages + rng.choices(messages, [int(weight) for weight, _ in pairs], k=count - len(messages))
    rng.shuffle(chosen)
    return [fill(message, rng) for message in chosen], chosen
