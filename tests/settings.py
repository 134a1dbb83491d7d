"""Settings of the tests: a fresh data directory for each process, nothing shared with a checkout's own ``var``.

``DATABASE_URL`` chooses the database as it does for the product; without it the tests use SQLite in a file, because a
real worker process must be able to open the same database.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# Assigned, not a default: a test worker inherits its controller's environment and must not share its directory.
_data = Path(tempfile.mkdtemp(prefix="fl-test-"))
(_data / "static").mkdir()
atexit.register(shutil.rmtree, _data, ignore_errors=True)
os.environ["FAULTLINE_DATA_DIR"] = str(_data)
os.environ["REDIS_URL"] = f"unix://{_data / 'valkey.sock'}"
# The browser's driver keeps an event loop in its thread, which makes Django think that the code is asynchronous.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"

from triage.environment import env_bool  # noqa: E402
from triage.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}  # noqa: F405
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
CELERY_TASK_ALWAYS_EAGER = True
CELERY_TASK_EAGER_PROPAGATES = True
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": str(_data / "test.sqlite3")}  # noqa: F405
# Most tests read evidence in their own process; `tests/ingest/test_isolation.py` and those with real workers do not.
READING_IS_APART = env_bool("FAULTLINE_READING_IS_APART", False)
