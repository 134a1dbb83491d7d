"""Adds to the schema what all operations share: refusals are problems, and rate limits have headers."""

from __future__ import annotations

from typing import Any

from drf_spectacular.plumbing import get_lib_doc_excludes

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RETRY: dict[str, Any] = {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}}
_LIMITS = {
    f"RateLimit-{name}": {"description": meaning, "schema": {"type": "integer"}}
    for name, meaning in (
        ("Limit", "Requests a minute"),
        ("Remaining", "Requests left in this minute"),
        ("Reset", "Seconds until the next minute begins"),
    )
}
_TEXT, _NOT_BLANK = r"^[^\u0000]*$", r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
_COMMON: dict[str, dict[str, Any]] = {
    "401": {"description": "No token, or one that is not valid"},
    "403": {"description": "The token's scopes or its owner's role do not allow this"},
    "404": {"description": "It does not exist, or the caller has no access"},
    "429": {"description": "Too many requests in this minute", "headers": {**_RETRY, **_LIMITS}},
    "503": {"description": "Busy: nothing was lost, try again", "headers": _RETRY},
    "default": {"description": "What is wrong and what to do"},
}


#: base classes that :func:`for_programmers` marked
_FOR_PROGRAMMERS: list[type[Any]] = []


def for_programmers[T: type[Any]](base: T) -> T:
    """Keep the docstring of a base class out of the API's description."""
    _FOR_PROGRAMMERS.append(base)
    return base


def classes_for_programmers() -> list[type[Any]]:
    """Base classes whose docstrings address programmers of this project, not readers of the API's description."""
    others: Any = get_lib_doc_excludes  # drf-spectacular has no types
    return [*others(), *_FOR_PROGRAMMERS]


def problems(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Postprocessing hook of drf-spectacular: every operation may answer RFC 9457 problem details."""
    _head_of_upload(result["paths"])
    _refusals_of_requests(result)
    for address in result["paths"].values():
        for operation in address.values():
            responses = operation["responses"]
            body = operation.get("requestBody", {})
            if any("octet-stream" in kind for kind in body.get("content", {})):
                body["required"] = True  # the generator writes this only for forms
            for status, response in _COMMON.items():
                responses.setdefault(status, {**response, "content": _PROBLEM})
            for status, response in responses.items():
                if status != "default" and int(status) >= 400:
                    response["content"] = _PROBLEM
            operation["responses"] = dict(sorted(responses.items()))
    return result


def _refusals_of_requests(result: dict[str, Any]) -> None:
    """What requests may not hold: other fields, NUL in a text, a blank text where one is required.

    Answers may gain fields, and their texts may be empty: the generator derives "not empty" from
    the rules for requests.
    """
    operations = [operation for address in result["paths"].values() for operation in address.values()]
    for parameter in (one for operation in operations for one in operation.get("parameters", ())):
        if parameter["in"] != "header" and parameter["schema"] == {"type": "string"}:
            parameter["schema"] = {"type": "string", "pattern": _TEXT}
    bodies = (operation.get("requestBody", {}).get("content", {}) for operation in operations)
    refs = {kind.get("schema", {}).get("$ref", "") for content in bodies for kind in content.values()}
    asked = {ref.rpartition("/")[2] for ref in refs}
    for name, schema in result["components"]["schemas"].items():
        if name in asked:
            schema["additionalProperties"] = False
        for said in schema.get("properties", {}).values():
            text = said.get("items", said)
            if name not in asked:
                text.pop("minLength", None)
            elif "string" in text.get("type", "") and not {"enum", "format", "pattern"} & text.keys():
                text["pattern"] = _NOT_BLANK if text.get("minLength") else _TEXT


def _head_of_upload(paths: dict[str, Any]) -> None:
    """tus asks for the offset with HEAD, which the generator does not know."""
    address = next(path for path in paths if path.startswith("/api/v1/uploads/{"))
    patch = paths[address]["patch"]
    shared = {name: patch[name] for name in ("tags", "security")}
    paths[address]["head"] = {
        **shared,
        "operationId": "uploads_offset",
        "summary": "How many bytes have arrived (tus HEAD)",
        "parameters": [parameter for parameter in patch["parameters"] if parameter["in"] == "path"],
        "responses": {
            "200": {
                "description": "The upload is known",
                "headers": {
                    name: {"schema": {"type": "integer"}, "required": True}
                    for name in ("Upload-Offset", "Upload-Length")
                },
            }
        },
    }
