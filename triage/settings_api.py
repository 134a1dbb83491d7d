"""The settings of the API and of its description: they have no variables. ``triage.settings`` has all others."""

from __future__ import annotations

from triage.places import version

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "ingest.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["ingest.api.parsers.Json"],
    "EXCEPTION_HANDLER": "ingest.problems.problem_json",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Faultline",
    "VERSION": version(),
    "SERVERS": [{"url": "/", "description": "The site that shows this document"}],
    "OAS_VERSION": "3.1.0",
    "ENFORCE_NON_BLANK_FIELDS": True,
    "GET_LIB_DOC_EXCLUDES": "ingest.api.schema.classes_for_programmers",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "ingest.api.schema.problems"],
    "ENUM_NAME_OVERRIDES": {
        "DestinationEnum": "triage.api.routes.KINDS",
        "OutcomeEnum": "ingest.models.Outcome",
        "IncidentStateEnum": "triage.models.Incident.State",
        "RunStateEnum": "ingest.models.Run.State",
        "ArtifactStateEnum": "ingest.models.Artifact.State",
        "UploadStateEnum": "ingest.models.Upload.State",
        "DiagnosisStateEnum": "ingest.api.serializers.DIAGNOSIS_STATES",
        "StepStateEnum": "ingest.api.serializers.STEP_STATES",
    },
    "SWAGGER_UI_DIST": "SIDECAR",
    # Its links would lie inside of buttons, which no reader of screens can tell apart. All operations at once take
    # seconds to draw and many screens: groups open when they are chosen.
    "SWAGGER_UI_SETTINGS": {"deepLinking": False, "docExpansion": "none", "defaultModelsExpandDepth": 0},
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}
