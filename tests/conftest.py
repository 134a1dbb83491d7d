"""Real servers for tests that need them, each started once per test process with its own port and files."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from tests import migrated
from tests.patience import PATIENCE_S, WORK_S
from triage.serve.children import spawn, stop, wait_until
from triage.serve.valkey import start_valkey

#: Equal code gives equal test results. ``--hypothesis-profile fresh`` draws new examples.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fresh", derandomize=False, deadline=None, max_examples=3000)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent
_OF_MIGRATIONS = {"django_content_type", "auth_permission", "auth_group", "auth_group_permissions"}
#: Files of tests of what pages, charts and readers make of evidence, of bytes on their way, and of what other programs
#: are sent. Their rows are saved and read by the queries that `test_access_matrix`, `test_incident_page`,
#: `test_contract`, `test_diagnosing` and `test_collectors` send to both databases, so that PostgreSQL would only repeat
#: their drawing, reading and sending. All other tests with a database run on both: `tests/test_databases.py` says which
#: words keep a file from this list.
ON_SQLITE_ALONE = frozenset(
    f"{folder}/test_{name}.py"
    for folder, names in {
        "ingest": "collector_senders common_column_files isolation otlp_attributes ranges reading_together s3 "
        "same_as_the_command_line spans temp_files tracing",
        "triage": "agreement assistant chart_tables chat checks_page claims comparing cost cost_line events "
        "flows_attached flows_page flows_ports help instant judging live_log log_search logs oidc on_call "
        "outbound records_page replay_page rules running_page server sign_in stacks_page start_up strip "
        "timeline unknown_fields visible_text watched_incident wording",
    }.items()
    for name in names.split()
)
#: Single tests of the same kind in files that run on both: what thousands of files cost, readers and brokers that end,
#: real workers whose queries other tests send, deliveries, Django's own checks; and all others that are rolled back and
#: whose statements others send, too, if they are about no lock, no order and no limit of a value: `tests/statements.py`
#: finds and writes them. A test that is new or changed runs on both until it does so again.
TESTS_ON_SQLITE_ALONE = frozenset((ROOT / "tests" / "on_sqlite_alone.txt").read_text().split())
SHARED = Path(os.environ.get("FAULTLINE_SHARED", ROOT.parent / "shared"))


#: Modules and collected tests live as long as the process. Python's usual search for unreachable objects walks all of
#: them again and again, which takes a tenth of the processor time of all tests, and of what loads them.
gc.set_threshold(100_000, 50, 100)
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", action="store_true", help="keep pictures of pages in test-results/")
    parser.addoption("--all-evidence", action="store_true", help="compare what pages say of every sample and recording")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """On PostgreSQL, files that run on SQLite alone are not even imported."""
    return True if os.environ.get("DATABASE_URL") and _is_on_sqlite_alone(collection_path) else None


def _is_on_sqlite_alone(path: Path) -> bool:
    return path.is_relative_to(ROOT / "tests") and path.relative_to(ROOT / "tests").as_posix() in ON_SQLITE_ALONE


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one site, and those of one broker, share a process of a parallel run, so that each starts once.

    Other tests are spread. On PostgreSQL only tests run whose outcome may depend on the database.
    """
    for item in items:
        if item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.xdist_group("site"))
        elif item.get_closest_marker("broker"):
            item.add_marker(pytest.mark.xdist_group("broker"))
    if os.environ.get("DATABASE_URL"):
        items[:] = [item for item in items if _depends_on_database(item)]


def _depends_on_database(item: pytest.Item) -> bool:
    if item.nodeid.removeprefix("tests/").partition("[")[0] in TESTS_ON_SQLITE_ALONE:
        return False
    used = {"db", "transactional_db", "django_db_setup"} & set(getattr(item, "fixturenames", ()))
    return bool(used) or item.get_closest_marker("django_db") is not None


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_use_migrations: bool) -> bool:
    """Whether the database of the tests is there already: the one that an earlier process has migrated."""
    from django.conf import settings

    name = settings.DATABASES["default"].get("TEST", {}).get("NAME")  # only that of SQLite is given one
    return bool(name) and django_db_use_migrations and migrated.restore(Path(name))


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_keepdb: bool, django_db_use_migrations: bool, django_db_blocker: Any
) -> Iterator[None]:
    """After a test with transactions all rows are deleted, except what migrations made: roles, permissions, types.
    Django would delete these, too, and make them again, which takes ten times as long."""
    from django.core.management.commands import flush
    from django.db import connection
    from django.test import testcases

    if connection.vendor == "sqlite" and django_db_use_migrations and not django_db_keepdb:
        migrated.keep(Path(connection.settings_dict["NAME"]))
    with django_db_blocker.unblock():
        # Django asks once for each process, so a budget of queries would depend on which test is the first.
        _ = connection.features.supports_json_field

    call = testcases.call_command

    def without_signals(name: str, *arguments: Any, **options: Any) -> Any:
        return call(name, *arguments, **options | ({"inhibit_post_migrate": True} if name == "flush" else {}))

    def others(style: Any, connection: Any, **options: Any) -> list[str]:
        names = connection.introspection.django_table_names(only_existing=True, include_views=False)
        names = [name for name in names if name not in _OF_MIGRATIONS]
        if connection.vendor != "postgresql":
            return list(connection.ops.sql_flush(style, names, **options))
        deleted = "; ".join(f'DELETE FROM "{name}"' for name in names)  # TRUNCATE makes new files for each table
        return [f"SET session_replication_role = replica; {deleted}; SET session_replication_role = origin"]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(testcases, "call_command", without_signals)
        patched.setattr(flush, "sql_flush", others)
        yield


@pytest.fixture(scope="module")
def kept_rows(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """What fixtures of a file make after it stands in the database for all tests of the file, each of which is rolled
    back to it. Not for tests with transactions, which see no rows of another one.
    """
    from django.db import transaction

    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def forgetful() -> None:
    """No test reads the cache of another test's pages: ids of rows repeat after a rollback."""
    if "django.core.cache" in sys.modules:
        from django.core.cache import cache  # tests of the library run without Django

        cache.clear()


#: what yields to others after some seconds: a unit of work, a step of a search through files
_SHARES = {"ingest.services.work": "SHORT_S", "triage.selectors.logsearch": "STEP_S"}


@pytest.fixture(autouse=True)
def unhurried() -> Iterator[None]:
    """Work in this process is done in one go, however busy the machine is. Tests of the shares set their own. No test
    waits for a broker that another test has missed.
    """
    with pytest.MonkeyPatch.context() as patched:
        for module, name in _SHARES.items():
            if module in sys.modules:  # tests of the library run without Django
                patched.setattr(f"{module}.{name}", WORK_S)
        if "ingest.broker" in sys.modules:
            patched.setattr("ingest.broker._ask_again_at", 0.0)
        yield


@pytest.fixture(autouse=True)
def consistent() -> Iterator[None]:
    """Every report of a test must satisfy ``diagnosis.conclusion.invariants``."""
    told: list[str] = []
    listener = _Listener(told)
    reports = logging.getLogger("diagnosis.report")
    reports.addHandler(listener)
    yield
    reports.removeHandler(listener)
    assert told == []


class _Listener(logging.Handler):
    """Stores log records."""

    def __init__(self, told: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.told = told

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@pytest.fixture
def same_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the limits of requests a minute no minute ends during the test."""
    now = time.time()
    monkeypatch.setattr("ingest.services.rates.time", SimpleNamespace(time=lambda: now))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of reference evidence; tests that need it are skipped if it does not exist."""
    if not SHARED.is_dir():
        pytest.skip("the reference evidence is not here (FAULTLINE_SHARED names its directory)")
    return SHARED


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """URL of a real Valkey that Celery in this process and ``worker`` both use."""
    from django.conf import settings  # tests of the library run without Django

    valkey = start_valkey(Path(settings.DATA_DIR), url=settings.REDIS_URL)
    yield valkey.url
    stop(valkey.process)


@pytest.fixture
def queued(broker: str) -> Iterator[None]:
    """Tasks go through the broker instead of running in the caller; the queues are empty before and after."""
    import redis

    from triage.celery import app

    client = redis.Redis.from_url(broker)
    client.flushall()
    app.conf.task_always_eager = False
    yield
    app.conf.task_always_eager = True
    client.flushall()


@pytest.fixture
def start_worker(queued: None, transactional_db: None) -> Iterator[Callable[..., Any]]:
    """Start real Celery workers on the test's database and broker: ``process = start_worker(FAULTLINE_X="1")``.

    Keyword arguments are environment variables of that worker. The process leads its own group, so that a test may
    kill the whole worker: ``os.killpg(process.pid, signal.SIGKILL)``.
    """
    from django.conf import settings
    from django.db import connection

    started: list[Any] = []
    name = connection.settings_dict["NAME"]
    url = os.environ.get("DATABASE_URL", "").replace("/postgres?", f"/{name}?")
    database = f"sqlite:///{name}" if connection.vendor == "sqlite" else url

    def start(**variables: str) -> Any:
        log = Path(settings.DATA_DIR) / "log" / f"worker-{len(started)}-{time.monotonic_ns()}.log"
        env = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "triage.settings",
            "DATABASE_URL": database,
            "FAULTLINE_DATA_DIR": str(settings.DATA_DIR),
            "REDIS_URL": settings.REDIS_URL,
            **variables,
        }
        argv = [sys.executable, "-m", "celery", "-A", "triage.celery", "worker", "-Q", "parse,diagnose,notify"]
        process = spawn([*argv, "-c", "2", "--without-gossip", "--without-mingle", "-l", "info"], log=log, env=env)
        started.append(process)
        wait_until(
            lambda: b" ready." in log.read_bytes(), process, what="The Celery worker", log=log, timeout_s=PATIENCE_S
        )
        return process

    yield start
    for process in started:
        stop(process)


@pytest.fixture
def worker(start_worker: Callable[..., Any]) -> Any:
    """One real worker process for the time of a test."""
    return start_worker()
