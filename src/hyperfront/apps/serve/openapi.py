"""The OpenAPI document: a description of each route for FastAPI, since handlers take the bare request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperfront.apps.serve.describe import example
from hyperfront.apps.serve.requests import HEADER_LENGTH
from hyperfront.apps.serve.service import Service
from hyperfront.apps.shared.choice import Choice

NUMBER = {"type": "number"}
NAME = {"type": "string"}
SIZES = {"type": "array", "items": {"type": "integer"}}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": [*required], "properties": required | (optional or {})}


ERROR = _object({"error": NAME})
REFUSALS = {
    400: "The request is invalid; `error` says why.",
    401: "The API key is missing or wrong.",
    404: "The model or version does not exist.",
    408: "The body did not arrive in time.",
    413: "The body, a tensor or the number of rows is too large.",
    415: "The body has an unknown Content-Encoding.",
    422: "The request is valid but has no answer: unattainable limits, or outputs that JSON cannot represent.",
    429: "Too many requests at the same time.",
    503: "Not ready, too slow, or short of memory for bodies.",
}


def route(services: Sequence[Service], which: str, form: str = "") -> dict[str, Any]:
    """The description of a route for FastAPI: summary, responses and their schemas."""
    summary, schema, refusals = _ROUTES[which]
    service = services[0]
    versioned = "version" in form
    kind = "text/plain" if which == "metrics" else "application/json"
    content: dict[str, Any] = {kind: {"schema": schema}}
    if which == "infer":
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    responses: dict[Any, Any] = {200: {"description": "The answer", "content": content}}
    key = () if which in ("live", "ready") else (401,)
    for status in (*refusals, *key, 429):
        responses[status] = {"description": REFUSALS[status], "content": {"application/json": {"schema": ERROR}}}
    extra: dict[str, Any] = {"responses": {str(status): response for status, response in responses.items()}}
    if "{name}" in form:
        extra["parameters"] = [
            {"name": key, "in": "path", "required": True, "schema": NAME, "example": value}
            for key, value in {"name": service.name, "version": service.version}.items()
            if f"{{{key}}}" in form
        ]
    if which in ("front", "select", "predict"):
        extra["parameters"] = [
            {"name": key, "in": "query", "required": False, "schema": NAME, "example": value}
            for key, value in {"model": service.name, "version": service.version}.items()
        ]
    if which == "infer":
        extra["parameters"].append(
            {
                "name": HEADER_LENGTH,
                "in": "header",
                "description": "The length of the JSON, if binary tensors follow",
                "schema": {"type": "integer", "minimum": 0},
            }
        )
        extra["requestBody"] = {"required": True, "content": _infer_bodies(services)}
    if which == "select":
        shown = {"minimize": service.objectives[0], "subject_to": {service.objectives[1]: 0.4}}
        content = {"application/json": {"schema": Choice.model_json_schema(), "example": shown}}
        extra["requestBody"] = {"required": True, "content": content}
    if which == "predict":
        extra["requestBody"] = {"required": True, "content": _predict_body(service)}
    if which == "index":
        flag = _object({}, {"ready": {"type": "boolean"}})
        extra["requestBody"] = {"required": False, "content": {"application/json": {"schema": flag}}}
    return {
        "summary": summary + (" (of a version)" if versioned else ""),
        "operation_id": f"{which}_versioned" if versioned else which,
        "openapi_extra": extra,
    }


def _predict_body(service: Service) -> dict[str, Any]:
    columns = service.table.columns if service.table is not None else ("column",)
    row = {"type": "object", "required": [*columns], "additionalProperties": True}
    ray = {"type": "array", "items": NUMBER, "minItems": len(service.objectives)}
    schema = _object({"rows": {"type": "array", "items": row}}, {"ray": ray})
    if service.default_ray is None:
        schema["required"].append("ray")
    even = [round(1 / len(service.objectives), 4)] * len(service.objectives)
    shown = {"rows": [dict.fromkeys(columns, "...")], "ray": even}
    return {"application/json": {"schema": schema, "example": shown}}


def _infer_bodies(services: Sequence[Service]) -> dict[str, Any]:
    service = services[0]
    specs = [spec for service in services for spec in (service.ray, *service.inputs)]
    outputs = [spec.name for service in services for spec in service.all_outputs]
    ray = {"anyOf": [{"type": "array", "items": NUMBER, "minItems": len(service.objectives)}, NAME]}
    tensor = _object(
        {
            "name": {"type": "string", "enum": sorted({spec.name for spec in specs})},
            "datatype": {"type": "string", "enum": sorted({"FP32", "FP64", *(spec.datatype for spec in specs)})},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        },
        {
            "data": {"type": "array", "items": {"anyOf": [NUMBER, {"type": "boolean"}, {"type": "array"}]}},
            "parameters": _object({}, {"binary_data_size": {"type": "integer", "minimum": 0}}),
        },
    )
    output = _object(
        {"name": {"type": "string", "enum": sorted({*outputs})}},
        {"parameters": _object({}, {"binary_data": {"type": "boolean"}})},
    )
    parameters = {"ray": ray, "binary_data_output": {"type": "boolean"}, "timeout": {"type": "integer", "minimum": 0}}
    request = _object(
        {},
        {
            "id": NAME,
            "parameters": _object(
                {},
                parameters,
            ),
            "inputs": {"type": "array", "items": tensor},
            "outputs": {"type": "array", "items": output},
        },
    )
    shown = example(service)
    return {
        "application/json": {"schema": request} | ({"example": shown} if shown else {}),
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    }


_SPEC = _object({"name": NAME, "datatype": NAME, "shape": SIZES})
_SPECS = {"type": "array", "items": _SPEC}
_BY_NAME = {"type": "object", "additionalProperties": NUMBER}
_TABLE = {"type": "array", "items": {"type": "array", "items": NUMBER}}
_READY = _object({"name": NAME, "ready": {"type": "boolean"}})
_ROUTES: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "live": ("Liveness probe", _object({"live": {"type": "boolean"}}), ()),
    "ready": ("Readiness probe", _object({"ready": {"type": "boolean"}}), (503,)),
    "server": ("Name, version and extensions of the server", _object({"name": NAME, "version": NAME}), ()),
    "metrics": ("Numbers for Prometheus", NAME, ()),
    "metadata": (
        "Inputs and outputs of the model",
        _object({"name": NAME, "inputs": _SPECS, "outputs": _SPECS}),
        (404,),
    ),
    "model_ready": ("Whether the model is ready", _READY, (404, 503)),
    "config": ("The model in the form of Triton's configuration", _object({"name": NAME}), (404,)),
    "infer": (
        "Predict rows at rays",
        _object({"model_name": NAME, "model_version": NAME, "outputs": _SPECS}, {"id": NAME}),
        (400, 404, 408, 413, 415, 422, 503),
    ),
    "index": (
        "The models of the server",
        {"type": "array", "items": _object({"name": NAME, "state": NAME})},
        (400, 408, 413, 415, 503),
    ),
    "front": (
        "The front that training measured",
        _object({"objectives": {}, "rays": _TABLE, "losses": _TABLE}),
        (400, 404),
    ),
    "predict": (
        "Predict rows of a table, by column names",
        _object({"ray": {"type": "array", "items": NUMBER}, "predictions": {"type": "array", "items": _object({})}}),
        (400, 404, 408, 413, 415, 422, 503),
    ),
    "select": (
        "The ray of the best loss or score within limits on others",
        _object({"ray": {"type": "array", "items": NUMBER}, "losses": _BY_NAME, "scores": _BY_NAME}),
        (400, 404, 408, 413, 415, 422, 503),
    ),
}
