"""The voices of the jobs: programs with their loggers, collectors and schedulers."""

from lab.exams.sealed.third.voices import asia, europe, laboratories
from lab.exams.sealed.third.voices.base import Spoken

VOICES: dict[str, Spoken] = {v.name: v for v in (*asia.VOICES, *europe.VOICES, *laboratories.VOICES)}
