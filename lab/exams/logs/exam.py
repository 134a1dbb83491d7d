"""The made-up jobs of a seed: every cause on one framework, the frameworks held out on eight causes, healthy ones."""

from __future__ import annotations

from collections.abc import Iterator

from lab.exams.job import Job
from lab.exams.logs.job import Job as Made
from lab.exams.logs.model import CAUSES, FRAMEWORKS, Cause, Framework


def fits(framework: Framework, cause: Cause) -> bool:
    """Whether a wording of the cause belongs to the framework's vendor."""
    return any(v.vendors == "any" or framework.vendor in v.vendors.split() for v in cause.variants)


def made(seed: int) -> Iterator[tuple[str, Made, bool]]:
    """Name, job and whether it was held out at first."""
    for number, cause in enumerate(CAUSES):
        able = [f for f in FRAMEWORKS if fits(f, cause) and not f.is_held_out]
        framework = able[(seed * 5 + number * 3) % len(able)]
        name = f"{cause.subcategory}-{framework.name}"
        yield name, Made(f"{seed}-{name}", framework, cause), cause.is_held_out
    for framework in FRAMEWORKS:
        if framework.is_held_out:
            able_causes = [c for c in CAUSES if fits(framework, c)]
            for k in range(8):
                cause = able_causes[(seed * 7 + k * 5) % len(able_causes)]
                name = f"{cause.subcategory}-{framework.name}"
                yield name, Made(f"{seed}-{name}", framework, cause), True
        for k in range(2):
            name = f"healthy{k}-{framework.name}"
            yield name, Made(f"{seed}-{name}", framework, None), framework.is_held_out


def jobs(seed: int, *, held_out: bool = False) -> Iterator[Job]:
    """The jobs of one part."""
    for name, job, is_held_out in made(seed):
        if is_held_out == held_out:
            yield Job(name, job.framework.name, job.files(), job.truth())


def successes(seed: int) -> Iterator[Job]:
    """Three healthy jobs of every framework."""
    for framework in FRAMEWORKS:
        for k in range(3):
            job = Made(f"history-{seed}-{k}-{framework.name}", framework, None)
            yield Job(f"{framework.name}-{k}", framework.name, job.files(), job.truth())
