"""The voices of the jobs: programs with their loggers, files and schedulers."""

from lab.exams.sealed.second.voices import accelerators, hopper, inhouse
from lab.exams.sealed.second.voices.base import Voice

VOICES: dict[str, Voice] = {v.name: v for v in (*hopper.VOICES, *accelerators.VOICES, *inhouse.VOICES)}
