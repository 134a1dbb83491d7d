"""The jobs of a seed: every course in one voice that fits it, and successful jobs of every voice for a history."""

from __future__ import annotations

from exams.sealed.common.selection import Selection
from exams.sealed.third.courses import COURSES
from exams.sealed.third.courses.base import quiet
from exams.sealed.third.voices import VOICES

SET = Selection("third", COURSES, VOICES, quiet)
every, jobs, successes = SET.every, SET.jobs, SET.successes
