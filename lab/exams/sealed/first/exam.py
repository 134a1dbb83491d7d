"""The jobs of a seed: every failing course told by one voice, every healthy one by two, and successes for a history."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from lab.exams.job import Job
from lab.exams.sealed.first.collect import description, files
from lab.exams.sealed.first.dice import Dice
from lab.exams.sealed.first.script import play
from lab.exams.sealed.first.world import World

_HERE = Path(__file__).parent
_SIZES = (2, 3, 4, 6, 8, 8, 10, 12, 16, 16, 18, 24, 32, 40, 64)
#: Successes of each voice in the history.
_KNOWN = 3


@cache
def texts() -> dict[str, dict[str, Any]]:
    """Voices, courses, schedulers, noise and echoes."""
    found: dict[str, dict[str, Any]] = {"voices": {}, "courses": {}, "shared": {}}
    for path in sorted(_HERE.glob("*/*.toml")):
        held = tomllib.loads(path.read_text(encoding="utf-8"))
        for name, entry in held.items():
            found[path.parent.name].setdefault(name, {"name": name}).update(entry)
    return found


def voices_of(course: dict[str, Any]) -> list[str]:
    """Who can tell a course: whose words every group of it has, whatever the dice say."""
    able = []
    for name, voice in sorted(texts()["voices"].items()):
        groups = [set(g) for g in course.get("lines", {}).values() if not isinstance(g, list)]
        is_spoken = all(
            {name, voice["stack"], "any"} & g or set(voice["vendors"]) <= g or set(voice["schedulers"]) <= g
            for g in groups
        )
        is_python = voice["stack"] != "rust" or course.get("is_plain", False)
        if is_spoken and is_python and name in course.get("only", [name]) and name not in course.get("not", []):
            able.append(name)
    return able


def told(seed: str, family_seed: str, course: dict[str, Any], name: str) -> Job:
    """One job of a course by a voice."""
    voice = texts()["voices"][name]
    dice = Dice(family_seed, seed, voice, _size(random.Random(f"{seed}-size"), course, voice), course)
    w = World(dice, voice, texts()["shared"])
    play(w, course)
    rng = random.Random(f"{seed}-way")
    way = rng.choice(voice["ways"])
    data, where = files(w, way)
    if rng.random() < course.get("described", 0.4):
        data["job.json"] = description(w)
    return Job(f"{course['name']}-{name}-{way}", name, data, {**_truth(w, course), **where})


def _size(rng: random.Random, course: dict[str, Any], voice: dict[str, Any]) -> int:
    """Machines of a job: mostly a few dozen, now and then hundreds."""
    low, high = course.get("sizes", (2, 512))
    high = min(high, voice.get("most", 512))
    large = [k for k in (96, 128, 256, 512) if low <= k <= high]
    return rng.choice(large if large and rng.random() < 0.1 else [k for k in _SIZES if low <= k <= high])


def _truth(w: World, course: dict[str, Any]) -> dict[str, Any]:
    t, d = course.get("truth"), w.dice
    if t is None:
        return {"healthy": True, "outcome": "succeeded", "profile": w.voice["name"]}
    groups = {
        **{"none": [], "victim": [d.victim], "second": [d.second], "both": sorted([d.victim, d.second])},
        **{"rack": d.rack, "all": list(range(len(d.nodes)))},
    }
    named = {k: [d.nodes[n] for n in groups[t.get(k, "none")]] for k in ("faulty", "origin", "affected")}
    failed, logged = w.marked or (None, None)
    return {
        **{"healthy": False, "profile": w.voice["name"], "outcome": t.get("outcome", "failed")},
        **{k: t[k] for k in ("category", "subcategory", "symptom", "stage")},
        **{f"{k}_accept": [t[k], *t.get(f"also_{k}", [])] for k in ("category", "subcategory", "symptom", "stage")},
        "iteration": {"applicable": failed is not None, "failed": failed, "last_logged": logged},
        **{f"{k}_nodes": held for k, held in named.items()},
        "n_nodes": len(d.nodes),
        "switch": d.leaves[d.victim] if t.get("is_switch") else "",
    }


def jobs(seed: int) -> Iterator[Job]:
    """The jobs that are scored."""
    rng = random.Random(f"first-order-{seed}")
    for name, course in texts()["courses"].items():
        able = voices_of(course)
        count = 1 if "truth" in course else 2
        for k, voice in enumerate(rng.sample(able, min(count, len(able)))):
            yield told(f"first-{seed}-{name}-{k}", f"first-{seed}-{voice}", course, voice)


def successes(seed: int) -> Iterator[Job]:
    """Healthy jobs of every voice, for a history."""
    plain = {"name": "history", "script": ["start", "train 60 160 save=40", "eval", "train 20 90", "save", "done"]}
    for voice in texts()["voices"]:
        for k in range(_KNOWN):
            yield told(f"first-{seed}-history-{voice}-{k}", f"first-{seed}-{voice}", plain, voice)
