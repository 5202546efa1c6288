"""What the server says about itself: metadata, and the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

from hyperfront.serve.choosing import Choice
from hyperfront.serve.codec import HEADER_LENGTH
from hyperfront.serve.service import RAY, Service
from hyperfront.serve.settings import Settings
from hyperfront.serve.tensors import TensorSpec

EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository", "parameters"]
NUMBER = {"type": "number"}
NAME = {"type": "string"}
SIZES = {"type": "array", "items": {"type": "integer"}}


def metadata(service: Service, version: str) -> dict[str, Any]:
    """The protocol's description of a model; the ray is the first of its inputs."""
    return {
        "name": service.name,
        "versions": [version],
        "platform": "hyperfront_pytorch",
        "inputs": [spec.metadata() for spec in (service.ray, *service.inputs)],
        "outputs": [spec.metadata() for spec in service.outputs],
        "parameters": {"objectives": ",".join(service.objectives)},
    }


def config(service: Service, settings: Settings) -> dict[str, Any]:
    """The same in the words of Triton's model configuration."""

    def tensor(spec: TensorSpec) -> dict[str, Any]:
        return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", "dims": list(spec.shape)}

    return {
        "name": service.name,
        "platform": "hyperfront_pytorch",
        "backend": "hyperfront",
        "max_batch_size": settings.limits.rows,
        "input": [tensor(spec) for spec in (service.ray, *service.inputs)],
        "output": [tensor(spec) for spec in service.outputs],
    }


def overview(service: Service) -> str:
    """What the page says first, with a request to try."""
    inputs = ", ".join(f"{spec.name} {spec.datatype} {list(spec.metadata()['shape'])}" for spec in service.inputs)
    return (
        f"A model of a whole Pareto front, over the objectives {', '.join(service.objectives)}. Every request carries "
        f"a ray: {len(service.objectives)} non-negative numbers that sum to 1 (others are scaled so that they do), as "
        f"the input {RAY!r} (one for the request, or one for each row) or as the parameter {RAY!r}.\n\n"
        f"Inputs: {inputs or 'the ray alone'}. Outputs: {', '.join(spec.name for spec in service.outputs)}.\n\n"
        f"    {curl(service, 'http://HOST:PORT')}"
    )


def curl(service: Service, url: str) -> str:
    """A line that asks for one row of zeros, for the log and the page; or for its metadata, where that is too long."""
    if any(spec.size > 64 or -1 in spec.shape for spec in service.inputs):
        return f"curl {url}/v2/models/{service.name}"
    inputs = [spec.metadata() | {"shape": [1, *spec.shape], "data": [0] * spec.size} for spec in service.inputs]
    ray = [round(1 / len(service.objectives), 4)] * len(service.objectives)
    body = json.dumps({"parameters": {"ray": ray}, "inputs": inputs})
    return f"curl {url}/v2/models/{service.name}/infer -d '{body}'"


# ---- OpenAPI ---------------------------------------------------------------------------------------------------------


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": [*required], "properties": required | (optional or {})}


ERROR = _object({"error": NAME})
REFUSALS = {
    400: "The request is wrong; `error` says how.",
    401: "The API key is missing or wrong.",
    404: "There is no such model or version.",
    408: "The body did not arrive in time.",
    413: "The body, a tensor or the number of rows is too large.",
    415: "The body has an unknown Content-Encoding.",
    422: "The request is right but has no answer: limits that no ray keeps, or outputs that JSON cannot hold.",
    429: "Too many requests at the same time.",
    503: "Not ready, or too slow.",
}


def route(service: Service, which: str, form: str = "") -> dict[str, Any]:
    """What FastAPI is told about a route: summary, responses and their schemas."""
    summary, schema, refusals = _ROUTES[which]
    versioned = "version" in form
    kind = "text/plain" if which == "metrics" else "application/json"
    content: dict[str, Any] = {kind: {"schema": schema}}
    if which == "infer":
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    responses: dict[Any, Any] = {200: {"description": "The answer", "content": content}}
    for status in (*refusals, 401, 429):
        responses[status] = {"description": REFUSALS[status], "content": {"application/json": {"schema": ERROR}}}
    extra: dict[str, Any] = {"responses": {str(status): response for status, response in responses.items()}}
    if "{name}" in form:
        held = {"name": [service.name], "version": ["1"]}
        extra["parameters"] = [
            {"name": key, "in": "path", "required": True, "schema": NAME, "example": value[0]}
            for key, value in held.items()
            if f"{{{key}}}" in form
        ]
    if which == "infer":
        extra["parameters"].append(
            {
                "name": HEADER_LENGTH,
                "in": "header",
                "description": "The length of the JSON, if binary tensors follow it",
                "schema": {"type": "integer", "minimum": 0},
            }
        )
        extra["requestBody"] = {"required": True, "content": _infer_bodies(service)}
    if which == "select":
        example = {"minimise": service.objectives[0], "subject_to": {service.objectives[1]: 0.4}}
        content = {"application/json": {"schema": Choice.model_json_schema(), "example": example}}
        extra["requestBody"] = {"required": True, "content": content}
    if which == "index":
        flag = _object({}, {"ready": {"type": "boolean"}})
        extra["requestBody"] = {"required": False, "content": {"application/json": {"schema": flag}}}
    return {
        "summary": summary + (" (of a version)" if versioned else ""),
        "operation_id": f"{which}_versioned" if versioned else which,
        "openapi_extra": extra,
    }


def _infer_bodies(service: Service) -> dict[str, Any]:
    specs = (service.ray, *service.inputs)
    ray = {"anyOf": [{"type": "array", "items": NUMBER, "minItems": len(service.objectives)}, NAME]}
    tensor = _object(
        {
            "name": {"type": "string", "enum": [spec.name for spec in specs]},
            "datatype": {"type": "string", "enum": sorted({"FP32", "FP64", *(spec.datatype for spec in specs)})},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        },
        {
            "data": {"type": "array", "items": {"anyOf": [NUMBER, {"type": "boolean"}, {"type": "array"}]}},
            "parameters": _object({}, {"binary_data_size": {"type": "integer", "minimum": 0}}),
        },
    )
    output = _object(
        {"name": {"type": "string", "enum": [spec.name for spec in service.outputs]}},
        {"parameters": _object({}, {"binary_data": {"type": "boolean"}})},
    )
    request = _object(
        {},
        {
            "id": NAME,
            "parameters": _object({}, {"ray": ray, "binary_data_output": {"type": "boolean"}}),
            "inputs": {"type": "array", "items": tensor},
            "outputs": {"type": "array", "items": output},
        },
    )
    example = {
        "parameters": {"ray": [round(1 / len(service.objectives), 4)] * len(service.objectives)},
        "inputs": [
            {
                "name": spec.name,
                "datatype": spec.datatype,
                "shape": [1, *(max(s, 1) for s in spec.shape)],
                "data": ["..."],
            }
            for spec in service.inputs
        ],
    }
    return {
        "application/json": {"schema": request} | ({} if service.inputs else {"example": example}),
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    }


_SPEC = _object({"name": NAME, "datatype": NAME, "shape": SIZES})
_SPECS = {"type": "array", "items": _SPEC}
_BY_NAME = {"type": "object", "additionalProperties": NUMBER}
_TABLE = {"type": "array", "items": {"type": "array", "items": NUMBER}}
_READY = _object({"name": NAME, "ready": {"type": "boolean"}})
_ROUTES: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "live": ("Whether the server lives", _object({"live": {"type": "boolean"}}), ()),
    "ready": ("Whether it is ready for requests", _object({"ready": {"type": "boolean"}}), (503,)),
    "server": ("Name, version and extensions of the server", _object({"name": NAME, "version": NAME}), ()),
    "metrics": ("Numbers for Prometheus", NAME, ()),
    "metadata": (
        "Inputs and outputs of the model",
        _object({"name": NAME, "inputs": _SPECS, "outputs": _SPECS}),
        (404,),
    ),
    "model_ready": ("Whether the model is ready", _READY, (404, 503)),
    "config": ("The model in the words of Triton's configuration", _object({"name": NAME}), (404,)),
    "infer": (
        "Predict rows at rays",
        _object({"model_name": NAME, "model_version": NAME, "outputs": _SPECS}, {"id": NAME}),
        (400, 404, 408, 413, 415, 422, 503),
    ),
    "index": (
        "The models of the server",
        {"type": "array", "items": _object({"name": NAME, "state": NAME})},
        (400, 408, 413, 415),
    ),
    "front": (
        "The front that training measured",
        _object({"objectives": {}, "rays": _TABLE, "losses": _TABLE}),
        (404,),
    ),
    "select": (
        "The ray with the least of one loss, within limits on others",
        _object({"ray": {"type": "array", "items": NUMBER}, "losses": _BY_NAME, "scores": _BY_NAME}),
        (400, 404, 408, 413, 415, 422, 503),
    ),
}
