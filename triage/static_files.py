"""Static files under names with a hash of their content, also where one script imports another."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class Storage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Rewrites the addresses in ``import`` statements of scripts as well as those in style sheets."""

    support_js_module_import_aggregation = True
