"""The jobs of a set for a seed: every course in one voice that fits it, and successful jobs of every voice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lab.exams.job import Job
from lab.exams.sealed.common.case import Case
from lab.exams.sealed.common.course import Course
from lab.exams.sealed.common.voice import Voice

#: Successes of each voice in the history.
_KNOWN = 3


class Selection(NamedTuple):
    """A set: ``name`` stands in its seeds; ``quiet`` writes what machines say of nothing, for a share of them."""

    name: str
    courses: Mapping[str, Course]
    voices: Mapping[str, Voice]
    quiet: Callable[[Case, float], None]

    def write(self, seed: int, course: Course, voice: str) -> Job:
        """One job of a course by a voice."""
        own, family = f"{self.name}-{seed}-{course.name}", f"{self.name}-{seed}-{voice}"
        c = Case(self.voices[voice], own, family, course.low, course.high)
        course.tell(c)
        return c.finished(f"{course.name}-{voice}")

    def every(self, seed: int) -> Iterator[Job]:
        """A job of every course."""
        rng = random.Random(f"{self.name}-voices-{seed}")
        for course in self.courses.values():
            yield self.write(seed, course, rng.choice(course.able))

    def jobs(self, seed: int) -> Iterator[Job]:
        """The jobs that are scored: two thirds of the failing courses, which the seed chooses, and all others."""
        rng = random.Random(f"{self.name}-courses-{seed}")
        failing = [name for name, course in self.courses.items() if course.is_failing]
        left_out = {rng.choice(failing[k : k + 3]) for k in range(0, len(failing), 3)}
        for course, job in zip(self.courses.values(), self.every(seed), strict=True):
            if course.name not in left_out:
                yield job

    def successes(self, seed: int) -> Iterator[Job]:
        """Healthy jobs of every voice, for a history."""
        for name, voice in self.voices.items():
            for k in range(_KNOWN):
                own = f"{self.name}-{seed}-success-{name}-{k}"
                c = Case(voice, own, f"{self.name}-{seed}-{name}", high=24)
                c.ready()
                c.train(30, 80, save=12)
                c.evaluate()
                c.train(10, 40)
                self.quiet(c, 0.7)
                c.save()
                voice.finish(c)
                yield c.finished(f"success-{name}-{k}")
