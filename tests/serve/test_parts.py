import os

import pytest

from triage.serve import parts
from triage.serve.children import ServiceError

REACHED = {"REDIS_URL": "redis://queue:6379/0"}


@pytest.mark.parametrize("part", parts.PARTS)
def test_every_part_has_one_command(part: str) -> None:
    argv = parts.command(part, REACHED)
    assert argv[1] == "-m"
    assert argv[2] == ("granian" if part in ("web", "uploads") else "celery")


@pytest.mark.parametrize(("part", "queues"), [("parse", "parse"), ("worker", "parse,diagnose,notify")])
def test_a_worker_serves_the_queues_of_its_part(part: str, queues: str) -> None:
    argv = parts.command(part, {**REACHED, "FAULTLINE_WORKER_PROCESSES": "3"})
    assert argv[argv.index("--queues") + 1] == queues
    assert argv[argv.index("--concurrency") + 1] == "3"
    assert "--beat" not in argv, "every worker sends periodic work"


def test_workers_of_one_machine_have_names_of_their_own() -> None:
    names = [argv[argv.index("--hostname") + 1] for argv in (parts.command(p, REACHED) for p in ("parse", "diagnose"))]
    assert names[0].startswith("parse-") and names[1].startswith("diagnose-")
    assert str(os.getpid()) in names[0], "two workers of one part differ, too"


def test_the_server_listens_where_the_variables_say() -> None:
    argv = parts.command("web", {**REACHED, "FAULTLINE_HOST": "0.0.0.0", "FAULTLINE_PORT": "80"})
    assert argv[argv.index("--host") + 1] == "0.0.0.0"
    assert argv[argv.index("--port") + 1] == "80"


def test_a_part_without_a_queue_says_which_variable_is_missing() -> None:
    with pytest.raises(ServiceError, match=r"^Set REDIS_URL"):
        parts.command("web", {})


def test_an_unknown_part_names_the_parts() -> None:
    with pytest.raises(ServiceError, match="no part 'beat'; there are: web, uploads, parse, diagnose, notify"):
        parts.command("beat", REACHED)


def test_a_web_server_that_stops_answers_what_it_has_before_kubernetes_kills_it() -> None:
    argv = parts.command("web", REACHED)
    assert 5 < int(argv[argv.index("--workers-kill-timeout") + 1]) < 30
