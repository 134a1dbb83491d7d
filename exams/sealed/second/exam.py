"""The jobs of a seed: every course in one voice that fits it, and successful jobs of every voice for a history."""

from __future__ import annotations

import random
from collections.abc import Iterator

from exams.job import Job
from exams.sealed.second.case import Case
from exams.sealed.second.courses import COURSES
from exams.sealed.second.courses.base import Course, quiet
from exams.sealed.second.voices import VOICES

#: Successes of each voice in the history.
_KNOWN = 3


def write(seed: int, course: Course, voice: str) -> Job:
    """One job of a course by a voice."""
    c = Case(VOICES[voice], f"second-{seed}-{course.name}", f"second-{seed}-{voice}", course.low, course.high)
    course.tell(c)
    return c.finished(f"{course.name}-{voice}")


def every(seed: int) -> Iterator[Job]:
    """A job of every course."""
    rng = random.Random(f"second-voices-{seed}")
    for course in COURSES.values():
        yield write(seed, course, rng.choice(course.able))


def jobs(seed: int) -> Iterator[Job]:
    """The jobs that are scored: two thirds of the failing courses, which the seed chooses, and all others."""
    rng = random.Random(f"second-courses-{seed}")
    failing = [name for name, course in COURSES.items() if course.is_failing]
    left_out = {rng.choice(failing[k : k + 3]) for k in range(0, len(failing), 3)}
    for course, job in zip(COURSES.values(), every(seed), strict=True):
        if course.name not in left_out:
            yield job


def successes(seed: int) -> Iterator[Job]:
    """Healthy jobs of every voice, for a history."""
    for name, voice in VOICES.items():
        for k in range(_KNOWN):
            c = Case(voice, f"second-{seed}-success-{name}-{k}", f"second-{seed}-{name}", high=24)
            c.ready()
            c.train(30, 80, save=12)
            c.evaluate()
            c.train(10, 40)
            quiet(c, 0.7)
            c.save()
            voice.finish(c)
            yield c.finished(f"success-{name}-{k}")
