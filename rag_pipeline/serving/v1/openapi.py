"""Make the OpenAPI 3.1 document of the endpoints from their models."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from rag_pipeline.client.records import Failure
from rag_pipeline.serving.v1.endpoints import Endpoint, failure

_REFUSALS = {
    "400": "The server cannot answer the request",
    "401": "A valid token is missing",
    "404": "Not found",
    "422": "A field is invalid",
    "429": "Too many requests",
    "503": "The server is not ready",
}


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of all endpoints."""
    models: dict[tuple[Any, JsonSchemaMode], None] = {(Failure, "serialization"): None}
    for one in endpoints:
        models |= {(one.takes, "validation"): None, (one.returns, "serialization"): None}
    references, schemas = models_json_schema([*models], ref_template="#/components/schemas/{model}")
    paths: dict[str, Any] = {}
    for one in endpoints:
        shown = references[one.takes, "validation"], references[one.returns, "serialization"]
        schema = schemas["$defs"][shown[0]["$ref"].rpartition("/")[2]]
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schema, *shown)
    return {
        "openapi": "3.1.0",
        "info": {"title": "rag_pipeline", "version": version("rag_pipeline")},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}, {}],
    }


def _operation(one: Endpoint, schema: Any, taken: Any, returned: Any) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": returned}}
    if one.streams is not None:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    refused = {
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
    }
    if one.form is not failure:
        refused = {"content": {"application/json": {"schema": {"type": "object"}}}}
    replies = {status: {"description": why, **refused} for status, why in _REFUSALS.items()}
    asked: dict[str, Any] = {}
    if one.method == "POST":
        asked = {
            "requestBody": {"required": True, "content": {"application/json": {"schema": taken}}}
        }
    properties = schema.get("properties", {}) if one.method == "GET" else {}
    named = [*re.findall(r"\{(\w+)\}", one.path), *properties]
    asked["parameters"] = [
        _parameter(one, name, properties.get(name, {"type": "string"}), schema)
        for name in dict.fromkeys(named)
    ]
    words = one.path.replace("{", "").replace("}", "").split("/")[2:]
    return {
        "operationId": "_".join([one.method.lower(), *words]),
        "summary": one.summary,
        **asked,
        "responses": {"200": {"description": "The reply", "content": content}, **replies},
    }


def _parameter(one: Endpoint, name: str, kind: Any, schema: Any) -> dict[str, Any]:
    in_path = f"{{{name}}}" in one.path
    return {
        "name": name,
        "in": "path" if in_path else "query",
        "required": in_path or name in schema.get("required", ()),
        "schema": kind,
    }
