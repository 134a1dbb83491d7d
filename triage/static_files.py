"""Which static files are collected, and under which names."""

from django.contrib.staticfiles.apps import StaticFilesConfig
from whitenoise.storage import CompressedManifestStaticFilesStorage


class Config(StaticFilesConfig):
    """Leaves out what no page uses: a second viewer of the API and the pages of DRF. They are four fifths of all bytes,
    and the first start compresses each file.
    """

    ignore_patterns = [*StaticFilesConfig.ignore_patterns, "redoc", "rest_framework"]  # noqa: RUF012  # as Django's


class Storage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Static files under names with a hash of their content, also where one script imports another.

    Rewrites the addresses in ``import`` statements of scripts as well as those in style sheets.
    """

    support_js_module_import_aggregation = True
