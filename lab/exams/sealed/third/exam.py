"""The jobs of a seed: every course in one voice that fits it, and successful jobs of every voice for a history."""

from __future__ import annotations

from lab.exams.sealed.common.selection import Selection
from lab.exams.sealed.third.courses import COURSES
from lab.exams.sealed.third.courses.base import quiet
from lab.exams.sealed.third.voices import VOICES

SET = Selection("third", COURSES, VOICES, quiet)
every, jobs, successes = SET.every, SET.jobs, SET.successes
