"""Runs the script of a course: one word a step, then what it is done to or how often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.exams.sealed.first.world import STAGES, World


def play(w: World, course: dict[str, Any]) -> None:
    """Writes all lines of a job. Steps: ``start train emit wait save eval mark silence restart over done echo``; at
    ``chance P`` the logs may end, as those of a job that still runs."""
    for step in course["script"]:
        words = step.split()
        if words[0] == "chance":
            if w.rng.random() < float(words[1]):
                return
            continue
        options = dict(x.split("=") for x in words[1:] if "=" in x)
        _STEPS[words[0]](w, course, [x for x in words[1:] if "=" not in x], options)


def _start(w: World, course: dict[str, Any], _: list[str], options: dict[str, str]) -> None:
    """Everything before the first iteration, up to and including a stage."""
    last = options.get("until", STAGES[-1])
    away = set(w.who(options["without"])) if "without" in options else set()
    w.control(w.pick(w.shared["schedulers"][w.dice.scheduler]["start"], "sched-start"), "sched-start")
    for k, (stage, who, text) in enumerate(w.voice["startup"]):
        if STAGES.index(stage) > STAGES.index(last):
            break
        if stage == "checkpoint_load" and not w.saved and "until" not in options:
            continue
        w.now += w.rng.uniform(2, 12)
        w.emit([r for r in w.who(who) if r not in away], [[text]], f"startup{k}", over=1.5)
        if k == 0:
            _settings(w)
    _noise(w, "starting", 3, len(w.who("nodes")))
    _kernel(w, 0.3)
    w.now += 8


def _settings(w: World) -> None:
    """What the first rank says of its configuration, in the spelling of its family."""
    table = w.shared["settings"]
    spelling = table["spellings"][w.dice.dialect % len(table["spellings"])]
    rows = w.rng.sample(table["rows"], w.rng.randint(18, len(table["rows"])))
    texts = [(name.ljust(34, "."), value) if "<k>.." in spelling else (name, value) for name, value in sorted(rows)]
    w.emit(w.who("first"), [[spelling.replace("<k>", k).replace("<v>", v) for k, v in texts]], "settings", after=0.8)


def _noise(w: World, kind: str, kinds: int, writers: int) -> None:
    """Lines that mean nothing, as every run prints them."""
    table = w.shared["noise"][kind]
    groups = [g for word in ("any", w.voice["stack"], w.dice.vendor) for g in table.get(word, [])]
    for group in w.rng.sample(groups, min(kinds, len(groups))):
        ranks = w.who("nodes")
        chosen = w.rng.sample(ranks, min(writers, len(ranks)))
        w.emit(chosen, [group], "noise", over=6, after=-w.rng.random() * min(9, w.now))


def _kernel(w: World, share: float) -> None:
    """What kernels say of a quiet machine."""
    table = w.shared["noise"]["kernel"]
    for rank in w.who("nodes")[:48]:
        if w.rng.random() < share:
            group = w.rng.choice([*table["any"], *table.get(w.dice.vendor, [])])
            w.emit([rank], [group], "quiet", after=-w.rng.random() * w.now)


def _train(w: World, course: dict[str, Any], words: list[str], options: dict[str, str]) -> None:
    """So many iterations, with what programmes print between them; ``slow``: so much longer each."""
    low, high = (int(x) for x in (words * 2)[:2])
    slow, save, begin = float(options.get("slow", 1)), int(options.get("save", 0)), w.now
    progress = w.voice["progress"][w.dice.dialect % len(w.voice["progress"])]
    speakers = w.who(w.voice.get("speakers", "reporter"))
    chatter, share, writers = w.voice["chatter"], min(2.5, 0.08 * len(w.dice.nodes)), w.who("nodes")
    for k in range(1, w.rng.randint(low, high) * w.dice.length + 1):
        w.took = w.dice.step_s * slow * (1 + abs(w.rng.gauss(0, 0.02)))
        w.now += w.took
        w.n += 1
        if w.n % w.dice.every == 0 and speakers:
            w.told, w.is_told = w.n, True
            w.emit(speakers, [[progress]], "progress", over=0.2 if len(speakers) > 1 else 0.0)
        for _ in range(int(share) + (w.rng.random() < share % 1)):
            w.emit([w.rng.choice(writers)], [[w.rng.choice(chatter)]], "chatter", after=-w.took / 3)
        if save and k % save == 0:
            _save(w, course, [], {})
    if w.now - begin > 40:
        after, w.now = w.now, begin + (w.now - begin) * w.rng.uniform(0.2, 0.7)
        _noise(w, "passing", w.rng.randint(1, 3), w.rng.randint(1, 3))
        w.now = after
        _kernel(w, 0.12)


def _save(w: World, _: dict[str, Any], words: list[str], __: dict[str, str]) -> None:
    """A checkpoint; ``begin``: it is not finished."""
    w.emit([w.limit], [[w.voice["save"][0]]], "save0", after=0.1)
    w.now += 1
    if "begin" not in words:
        w.now += w.rng.uniform(4, 40)
        w.emit([w.limit], [[w.voice["save"][1]]], "save1")
        w.saved = w.n
        w.told, w.is_told = w.n, True


def _eval(w: World, _: dict[str, Any], words: list[str], options: dict[str, str]) -> None:
    """An evaluation; ``begin``: it is not finished."""
    w.emit([w.limit], [[w.voice["eval"][0]]], "eval0", after=0.1)
    w.now += float(options.get("takes", 1 if "begin" in words else w.rng.uniform(20, 90)))
    if "begin" not in words:
        w.emit([w.limit], [[w.voice["eval"][1]]], "eval1")


def _emit(w: World, course: dict[str, Any], words: list[str], options: dict[str, str]) -> None:
    """A group of lines of the course, by some ranks."""
    group = course["lines"][words[1]]
    if words[0] == "job":
        w.control(w.pick(group, words[1]), words[1], float(options.get("after", 0)))
        return
    over, after = float(options.get("over", 0)), float(options.get("after", 0))
    for _ in range(int(options.get("times", 1))):
        w.emit(w.who(words[0]), group, words[1], over, after)
        w.now += w.rng.uniform(0.3, 1.0) * float(options.get("every", 0))


def _echo(w: World, _: dict[str, Any], words: list[str], options: dict[str, str]) -> None:
    """What a broken peer (``reset``) or one that does not come (``timeout``) makes the others say."""
    if words[0] == "timeout":
        w.now += w.dice.patience
    w.emit(w.who(words[1]), w.shared["echoes"][words[0]], words[0], float(options.get("over", 3)), 0.4)
    w.now += 4


def _mark(w: World, _: dict[str, Any], __: list[str], ___: dict[str, str]) -> None:
    w.marked = (w.n + 1, w.told if w.is_told else None)


def _wait(w: World, _: dict[str, Any], words: list[str], __: dict[str, str]) -> None:
    w.now += w.rng.uniform(float(words[0]), float(words[-1]))


def _silence(w: World, _: dict[str, Any], words: list[str], __: dict[str, str]) -> None:
    """Nothing more comes from machines."""
    w.gone |= {r // w.dice.per for r in w.who(words[0])}


def _over(w: World, _: dict[str, Any], words: list[str], options: dict[str, str]) -> None:
    """The scheduler ends the job after a rank failed (``by``: another than the victim's), or for a reason that the
    course gave (``quiet``)."""
    rules = w.shared["schedulers"][w.dice.scheduler]
    w.now += 2
    if "quiet" not in words:
        blamed = (w.who(options["by"]) or w.who("all"))[0] if "by" in options else w.dice.rank
        w.control(w.pick(rules["fail"], "sched-fail"), "sched-fail", rank=blamed)
    share = w.rng.uniform(0.3, 1.0)
    w.emit([r for r in w.who("all") if w.rng.random() < share], w.shared["echoes"]["term"], "term", 3, 0.5)
    w.now += 5
    w.control(w.pick(rules["end"], "sched-end"), "sched-end")


def _done(w: World, _: dict[str, Any], __: list[str], ___: dict[str, str]) -> None:
    """The end of a job without a failure."""
    w.now += 3
    w.emit(w.who("all"), [[w.voice["finish"]]], "finish", 2)
    _noise(w, "ending", 2, len(w.who("nodes")))
    w.now += 6
    w.control(w.pick(w.shared["schedulers"][w.dice.scheduler]["done"], "sched-done"), "sched-done")


def _restart(w: World, _: dict[str, Any], words: list[str], __: dict[str, str]) -> None:
    """The job is launched again from its last checkpoint; ``anew``: the truth is about the launches that follow."""
    if "anew" in words:
        w.lines = [replace(line, role="context") if line.role == "root" else line for line in w.lines]
    w.now += w.rng.uniform(40, 200)
    w.control(w.pick(w.shared["schedulers"][w.dice.scheduler]["again"], "sched-again"), "sched-again")
    w.attempt += 1
    w.n = w.told = w.saved
    w.is_told = False
    w.gone.clear()
    w.dice.pids = [w.rng.randrange(1500, 400000) for _ in range(w.dice.world)]


_STEPS = {
    **{"start": _start, "train": _train, "save": _save, "eval": _eval, "emit": _emit, "echo": _echo, "mark": _mark},
    **{"wait": _wait, "silence": _silence, "over": _over, "done": _done, "restart": _restart},
}
