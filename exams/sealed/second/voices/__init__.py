"""Who tells the jobs: programmes with their loggers, files and schedulers."""

from exams.sealed.second.voices import accelerators, hopper, houses
from exams.sealed.second.voices.base import Voice

VOICES: dict[str, Voice] = {v.name: v for v in (*hopper.VOICES, *accelerators.VOICES, *houses.VOICES)}
