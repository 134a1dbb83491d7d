"""The courses of a seed: each written by two voices and collected in two ways."""

from __future__ import annotations

from collections.abc import Iterator

from lab.exams.courses.collectors import COLLECTORS, files
from lab.exams.courses.courses import COURSES
from lab.exams.courses.held_out import HELD
from lab.exams.courses.voices import VOICES
from lab.exams.courses.world import World
from lab.exams.job import Job

#: Voices that write a course.
TOLD = 2


def jobs(seed: int, *, held_out: bool = False) -> Iterator[Job]:
    """Every open course; or those held out at first, and every course by the voices held out at first."""
    open_voices = [v for v in VOICES if not v.is_held_out]
    held_voices = [v for v in VOICES if v.is_held_out]
    ways = list(COLLECTORS)
    courses = {**HELD, **COURSES} if held_out else COURSES
    for number, (name, (course, size)) in enumerate(courses.items()):
        for k in range(TOLD):
            voices = held_voices if held_out and name in COURSES else open_voices
            if k and voices is held_voices:
                continue
            voice = voices[(seed * 3 + number * 7 + k * 5) % len(voices)]
            way = ways[(seed * 5 + number * 4 + k * 3) % len(ways)]
            world = World(f"{seed}-{name}-{k}", voice, size)
            course(world)
            data, truth = files(world, COLLECTORS[way], is_described=world.rng.random() < 0.6)
            yield Job(f"{name}-{voice.name}-{way}", voice.name, data, truth)


def successes(seed: int) -> Iterator[Job]:
    """Three healthy jobs of every voice, each collected in another way."""
    ways = list(COLLECTORS)
    for number, voice in enumerate(VOICES):
        for k in range(3):
            world = World(f"history-{seed}-{k}-{voice.name}", voice)
            COURSES["healthy"][0](world)
            data, truth = files(world, COLLECTORS[ways[(number + 4 * k) % len(ways)]], is_described=True)
            yield Job(f"{voice.name}-{k}", voice.name, data, truth)
