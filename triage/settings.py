"""Settings. Every variable is documented in docs/settings.md; a test fails when one is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dj_database_url
from django.utils.csp import CSP
from redis.backoff import NoBackoff
from redis.retry import Retry

from triage import settings_api
from triage.environment import (
    diagnosing_memory_bytes,
    env_bool,
    env_choice,
    env_int,
    env_list,
    env_pairs,
    env_price,
    env_secret,
    env_str,
)
from triage.places import RESOURCES, data_dir, version

BASE_DIR = RESOURCES
DATA_DIR = Path(env_str("FAULTLINE_DATA_DIR") or data_dir()).resolve()

DEBUG = env_bool("FAULTLINE_DEBUG", False)
SECRET_KEY = env_secret("FAULTLINE_SECRET_KEY", DATA_DIR / "secret_key")
SECRET_KEY_FALLBACKS = env_list("FAULTLINE_SECRET_KEY_FORMER")
ALLOWED_HOSTS = env_list("FAULTLINE_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("FAULTLINE_TRUSTED_ORIGINS")
IS_BEHIND_TLS = env_bool("FAULTLINE_TLS", False)
VERSION = version()
#: where OpenTelemetry's exporter sends spans (ingest.spans); it reads the variables itself
TRACES_ENDPOINT = env_str("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or env_str("OTEL_EXPORTER_OTLP_ENDPOINT")

INSTALLED_APPS = [
    "triage",
    "ingest",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "triage.static_files.Config",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
]

MIDDLEWARE = [
    "triage.middleware.Probes",
    "triage.middleware.Traced",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "triage.middleware.NotStored",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "triage.middleware.VisibleText",  # inside of what states the length of the answer
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "triage.middleware.UsableText",
    "triage.middleware.Guarded",
    "allauth.account.middleware.AccountMiddleware",
]

ROOT_URLCONF = "triage.urls"
ASGI_APPLICATION = "triage.asgi.application"
AUTHENTICATION_BACKENDS = ["triage.auth.Backend"]
LOGIN_URL = "account_login"
CSRF_FAILURE_VIEW = "triage.views.site.csrf_failed"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "account_login"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "triage.context.site",
            ],
        },
    },
]

# SQLite in WAL mode serves one machine. Writers wait for each other (timeout) and take the lock at BEGIN, so that a
# read followed by a write cannot fail half way. A write by another connection empties a connection's page cache, so the
# file is memory-mapped as far as SQLite can.
_SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": env_int("FAULTLINE_SQLITE_TIMEOUT_S", 20),
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; "
    "PRAGMA cache_size=-65536; PRAGMA mmap_size=2147418112;",
}
SQLITE_WEB_TIMEOUT_MS = env_int("FAULTLINE_SQLITE_WEB_TIMEOUT_MS", 500)
DATABASES = {"default": dj_database_url.parse(env_str("DATABASE_URL", f"sqlite:///{DATA_DIR / 'faultline.sqlite3'}"))}
DATABASES["default"]["CONN_MAX_AGE"] = env_int("FAULTLINE_DB_CONN_MAX_AGE_S", 60)
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = _SQLITE_OPTIONS
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env_str("REDIS_URL", f"unix://{DATA_DIR / 'valkey.sock'}")
# A cache or broker that hangs must not delay requests.
CACHES = {
    "default": {
        "BACKEND": "triage.cache.FaultTolerantCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"socket_timeout": 1, "socket_connect_timeout": 1, "retry": Retry(NoBackoff(), 1)},
    }
}

# These two entries move blobs and column files to any S3-compatible store.
_BUCKET = env_str("FAULTLINE_S3_BUCKET")
_S3_ENCRYPTION = env_choice("FAULTLINE_S3_ENCRYPTION", ("", "AES256", "aws:kms"))


def _store(name: str) -> dict[str, Any]:
    if _BUCKET:
        options = {
            "bucket_name": _BUCKET,
            "location": name,
            "endpoint_url": env_str("FAULTLINE_S3_ENDPOINT") or None,
            "file_overwrite": True,  # replaces whole objects; object names are unique
            "max_memory_size": 8 << 20,  # larger objects are spooled to disk
            "object_parameters": {"ServerSideEncryption": _S3_ENCRYPTION} if _S3_ENCRYPTION else {},
        }
        return {"BACKEND": "ingest.object_store.ObjectStore", "OPTIONS": options}
    return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(DATA_DIR / name)}}


STORAGES = {
    "default": _store("files"),
    "blobs": _store("blobs"),
    "parsed": _store("parsed"),
    "staticfiles": {"BACKEND": "triage.static_files.Storage"},
}
STATIC_URL = "/static/"
STATIC_ROOT = Path(env_str("FAULTLINE_STATIC_DIR", str(DATA_DIR / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_KEEP_ONLY_HASHED_FILES = True  # pages name no others, and each would be compressed, too

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False  # only one language: translation would cost time in every part of a page

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = IS_BEHIND_TLS
SESSION_COOKIE_HTTPONLY = True
# With this prefix browsers take a cookie only from this host, by https, for all its paths.
_COOKIE_PREFIX = "__Host-" if IS_BEHIND_TLS else ""
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"{_COOKIE_PREFIX}sessionid", f"{_COOKIE_PREFIX}csrftoken"
#: seconds from the sign-in, and without use, after which a session ends; 0: only after the former
SESSION_MAX_S = 3600 * env_int("FAULTLINE_SESSION_HOURS", 336, minimum=1)
SESSION_IDLE_S = 60 * env_int("FAULTLINE_SESSION_IDLE_MINUTES", 4320)
SESSION_COOKIE_AGE = min(SESSION_MAX_S, SESSION_IDLE_S or SESSION_MAX_S)
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 31_536_000 if IS_BEHIND_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = IS_BEHIND_TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if IS_BEHIND_TLS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_CSP = {
    "default-src": [CSP.SELF],
    "script-src": [CSP.SELF],
    "style-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "connect-src": [CSP.SELF],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "triage.password_words.SiteWordsValidator"},
]

# Sign-in, passwords and second factor. Limits count attempts for each address ("ip") and each account ("key").
ACCOUNT_ADAPTER = "triage.account_adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "login": "triage.account_adapters.SignIn",
    "change_password": "triage.account_adapters.ChangePassword",
    "reset_password": "triage.account_adapters.ResetPassword",
    "reset_password_from_key": "triage.account_adapters.NewPassword",
}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False  # the user name or the provider's subject identifies people, the e-mail address does not
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_SESSION_REMEMBER = True
SIGN_IN_FAILURES = env_int("FAULTLINE_SIGN_IN_FAILURES", 10, minimum=1)
ACCOUNT_RATE_LIMITS = {
    "login": f"{SIGN_IN_FAILURES * 12}/m/ip",
    "login_failed": f"{SIGN_IN_FAILURES * 2}/5m/ip,{SIGN_IN_FAILURES}/5m/key",
    "reset_password": "20/h/ip,5/h/key",
    "reset_password_from_key": "20/h/ip",
    "change_password": "10/5m/user",
    "reauthenticate": "10/5m/user",
}
# number of proxies before this site that may set X-Forwarded-For
ALLAUTH_TRUSTED_PROXY_COUNT = env_int("FAULTLINE_PROXIES", 1 if IS_BEHIND_TLS else 0)
#: who must have a second step
SECOND_STEP = env_choice("FAULTLINE_SECOND_STEP", ("nobody", "managers", "everybody"))
MFA_ADAPTER = "triage.account_adapters.SecondStepAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_ALLOW_UNVERIFIED_EMAIL = True  # e-mail is not part of it
MFA_TOTP_TOLERANCE = 1  # one step of 30 s in both directions: clocks of phones differ

# Uploads: larger ones are refused with a sentence that names the limit.
UPLOAD_MAX_BYTES = env_int("FAULTLINE_UPLOAD_MAX_BYTES", 200 * 2**30, minimum=1)
ARCHIVE_MAX_MEMBERS = env_int("FAULTLINE_ARCHIVE_MAX_MEMBERS", 200_000, minimum=1)
ARCHIVE_MAX_BYTES = env_int("FAULTLINE_ARCHIVE_MAX_BYTES", 500 * 2**30, minimum=1)
ARCHIVE_MAX_RATIO = env_int("FAULTLINE_ARCHIVE_MAX_RATIO", 1000, minimum=1)
ARCHIVE_MAX_DEPTH = env_int("FAULTLINE_ARCHIVE_MAX_DEPTH", 3, minimum=1)
PARSE_UNIT_BYTES = env_int("FAULTLINE_PARSE_UNIT_BYTES", 64 * 2**20, minimum=2**16)
# Evidence is read and diagnosed in a separate process (0: in the worker itself, for debugging). Limits of one call:
# memory (0: none), seconds without progress, seconds in total, and seconds of processor time: some for each call (0: no
# limit), and some for each MB of evidence. Logs take 0.01 s a MB, the densest flow records (Parquet, 10 bytes each) 0.4
# s; the rest is for slow processors. A run has many calls; the last limit is for one try of a run.
READING_IS_APART = env_bool("FAULTLINE_READING_IS_APART", True)
READING_MEMORY_BYTES = env_int("FAULTLINE_READING_MEMORY_BYTES", 2**30)
DIAGNOSING_MEMORY_BYTES = env_int("FAULTLINE_DIAGNOSING_MEMORY_BYTES", diagnosing_memory_bytes())
DASK = env_str("FAULTLINE_DASK")
READING_SILENCE_S = env_int("FAULTLINE_READING_SILENCE_S", 600, minimum=1)
READING_LIMIT_S = env_int("FAULTLINE_READING_LIMIT_S", 6 * 3600, minimum=1)
READING_CPU_S = env_int("FAULTLINE_READING_CPU_S", 40)
READING_CPU_S_PER_MB = env_int("FAULTLINE_READING_CPU_S_PER_MB", 2)
RUN_LIMIT_S = env_int("FAULTLINE_RUN_LIMIT_S", 24 * 3600, minimum=1)
CONDENSE_DAYS = env_int("FAULTLINE_CONDENSE_DAYS", 0)
EVIDENCE_DAYS = env_int("FAULTLINE_EVIDENCE_DAYS", 0)
TEAM_MAX_BYTES = env_int("FAULTLINE_TEAM_MAX_BYTES", 0)
DIAGNOSE_AFTER_S = env_int("FAULTLINE_DIAGNOSE_AFTER_S", 30)
#: lost GPU-seconds from which slow steps become an incident
SLOW_LEAST_GPU_S = env_int("FAULTLINE_SLOW_LEAST_GPU_S", 20)
#: what an hour of one GPU costs, and its currency; None: pages show hours alone
GPU_HOUR_PRICE = env_price("FAULTLINE_GPU_HOUR_PRICE")
# One form without JavaScript may carry a whole directory of rank files.
DATA_UPLOAD_MAX_NUMBER_FILES = 5000
# Bodies above 64 KiB: minimum rate, maximum time, and how many at once in one web process.
BODY_MIN_BYTES_PER_S = env_int("FAULTLINE_BODY_MIN_BYTES_PER_S", 1000)
BODY_MAX_S = env_int("FAULTLINE_BODY_MAX_S", 43_200, minimum=1)
BODIES_AT_ONCE = env_int("FAULTLINE_BODIES_AT_ONCE", 1000, minimum=1)
BODIES_PER_PERSON = env_int("FAULTLINE_BODIES_PER_PERSON", 400, minimum=1)
API_PER_MINUTE = env_int("FAULTLINE_API_PER_MINUTE", 1200, minimum=1)
UPLOADS_PER_MINUTE = env_int("FAULTLINE_UPLOADS_PER_MINUTE", 12_000, minimum=1)
# Pieces of growing files and batches of collectors.
APPENDS_PER_MINUTE = env_int("FAULTLINE_APPENDS_PER_MINUTE", 60_000, minimum=1)
# What collectors push: bytes of one decompressed body, growing files of one attempt.
COLLECTOR_MAX_BYTES = env_int("FAULTLINE_COLLECTOR_MAX_BYTES", 16 * 2**20, minimum=2**16)
COLLECTOR_SOURCES = env_int("FAULTLINE_COLLECTOR_SOURCES", 4096, minimum=1)
COLLECTOR_FILE_BYTES = env_int("FAULTLINE_COLLECTOR_FILE_BYTES", 1 << 30, minimum=1 << 16)
# What followers are asked to take on their machines while a job hangs. Empty: nothing.
FOLLOWERS_TAKE = env_list("FAULTLINE_FOLLOWERS_TAKE", "stacks")

# Hosts and networks that webhooks may call although they are not public or use plain http.
ROUTES_ALLOW = env_list("FAULTLINE_ROUTES_ALLOW")
# A language model that summarises evidence: an endpoint in OpenAI's form, such as https://host/v1. Empty: off.
SUMMARY_URL = env_str("FAULTLINE_SUMMARY_URL")
SUMMARY_MODEL = env_str("FAULTLINE_SUMMARY_MODEL")
SUMMARY_KEY = env_str("FAULTLINE_SUMMARY_KEY")

# The classifier is trained again after this number of newly reviewed incidents (0: never automatically). A file with
# the site's own signatures, in addition to those from the page.
RETRAIN_AFTER = env_int("FAULTLINE_RETRAIN_AFTER", 25)
RULES_FILE = env_str("FAULTLINE_RULES_FILE")

# Sign-in with OpenID Connect in addition to passwords, if a provider is named.
OIDC_ISSUER = env_str("FAULTLINE_OIDC_ISSUER").rstrip("/")
OIDC_NAME = env_str("FAULTLINE_OIDC_NAME", "single sign-on")
OIDC_GROUPS_CLAIM = env_str("FAULTLINE_OIDC_GROUPS_CLAIM", "groups")
OIDC_DEFAULT_ROLE = env_str("FAULTLINE_OIDC_DEFAULT_ROLE", "viewer")
OIDC_ROLES = env_pairs("FAULTLINE_OIDC_ROLES", ("viewer", "engineer", "manager", "admin"))
OIDC_TEAMS = env_pairs("FAULTLINE_OIDC_TEAMS")
if OIDC_ISSUER:
    INSTALLED_APPS += ["allauth.socialaccount", "allauth.socialaccount.providers.openid_connect"]
    SOCIALACCOUNT_ADAPTER = "triage.oidc.Adapter"
    SOCIALACCOUNT_OPENID_CONNECT_URL_PREFIX = ""
    SOCIALACCOUNT_LOGIN_ON_GET = True  # the content policy allows forms only to this site
    SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": "oidc",
                    "name": OIDC_NAME,
                    "client_id": env_str("FAULTLINE_OIDC_CLIENT_ID"),
                    "secret": env_str("FAULTLINE_OIDC_CLIENT_SECRET"),
                    "settings": {"server_url": OIDC_ISSUER},
                }
            ],
        }
    }

CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# The last resort: ends a worker process whose call never returns.
CELERY_TASK_TIME_LIMIT = RUN_LIMIT_S + READING_SILENCE_S + 600
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = "parse"
CELERY_TASK_ROUTES = {"*.diagnose*": {"queue": "diagnose"}, "*.notify*": {"queue": "notify"}}
# A killed worker's task comes back after visibility_timeout; Celery checks every interval × throttle seconds, with
# kombu's defaults every 100 s. The timeout must exceed the longest task.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": env_int("FAULTLINE_VISIBILITY_TIMEOUT_S", 3600, minimum=1),
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
}

REST_FRAMEWORK = settings_api.REST_FRAMEWORK
SPECTACULAR_SETTINGS = settings_api.SPECTACULAR_SETTINGS

# E-mails (the weekly digest) are sent by SMTP if a server is named, else not sent.
SITE_URL = env_str("FAULTLINE_SITE_URL", f"http://localhost:{env_str('FAULTLINE_PORT', '8000')}")
DEFAULT_FROM_EMAIL = env_str("FAULTLINE_MAIL_FROM", "faultline@localhost")
_SMTP_HOST = env_str("FAULTLINE_SMTP_HOST")
HAS_MAIL = bool(_SMTP_HOST)
MAILERS = {
    "default": {
        "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "OPTIONS": {
            "host": _SMTP_HOST,
            "port": env_int("FAULTLINE_SMTP_PORT", 587),
            "username": env_str("FAULTLINE_SMTP_USER"),
            "password": env_str("FAULTLINE_SMTP_PASSWORD"),
            "use_tls": env_bool("FAULTLINE_SMTP_TLS", True),
        },
    }
    if _SMTP_HOST
    else {"BACKEND": "triage.unsent_mail.Backend"}
}

_LOG_FORMAT = env_choice("FAULTLINE_LOG_FORMAT", ("plain", "json"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"()": "ingest.tracing.PlainFormatter"}, "json": {"()": "ingest.tracing.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": _LOG_FORMAT}},
    # a run has one line of its own (ingest.services.run_lines); Celery's two for each message say less
    "loggers": {name: {"level": "WARNING"} for name in ("celery.app.trace", "celery.worker.strategy")},
    "root": {"handlers": ["stderr"], "level": env_str("FAULTLINE_LOG_LEVEL", "INFO")},
}
