"""The server's description of its model: metadata, and an example of a request."""

from __future__ import annotations

import json
from typing import Any

from hyperfront.apps.serve.options import ServiceOptions
from hyperfront.apps.serve.service import RAY, Service
from hyperfront.apps.serve.tensors import TensorMetadata

EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository", "parameters"]


def metadata(service: Service, versions: list[str]) -> dict[str, Any]:
    """The protocol's description of a model; the ray is the first of its inputs."""
    return {
        "name": service.name,
        "versions": versions,
        "platform": "hyperfront_pytorch",
        "inputs": [spec.metadata() for spec in (service.ray, *service.inputs)],
        "outputs": [spec.metadata() for spec in service.all_outputs],
        "parameters": _parameters(service),
    }


def _parameters(service: Service) -> dict[str, str]:
    found = {"objectives": ",".join(service.objectives)}
    if service.default_ray is not None:
        found["default_ray"] = _listed(service.default_ray[0].tolist())
    if service.decider is not None:
        decision = service.decider.decision
        found |= {"classes": ",".join(decision.classes), "threshold": f"{decision.threshold:g}"}
    return found | ({"columns": ",".join(service.table.columns)} if service.table is not None else {})


def _listed(ray: list[float]) -> str:
    return ", ".join(f"{entry:.6g}" for entry in ray)


def config(service: Service, settings: ServiceOptions) -> dict[str, Any]:
    """The description in the form of Triton's model configuration."""

    def tensor(spec: TensorMetadata) -> dict[str, Any]:
        return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", "dims": list(spec.shape)}

    return {
        "name": service.name,
        "platform": "hyperfront_pytorch",
        "backend": "hyperfront",
        "max_batch_size": settings.limits.rows,
        "input": [tensor(spec) for spec in (service.ray, *service.inputs)],
        "output": [tensor(spec) for spec in service.all_outputs],
    }


def overview(service: Service) -> str:
    """The introduction of the page, with a request to try."""
    inputs = ", ".join(f"{spec.name} {spec.datatype} {list(spec.metadata()['shape'])}" for spec in service.inputs)
    return (
        f"A model of a whole Pareto front, over the objectives {', '.join(service.objectives)}. Every request carries "
        f"a ray: {len(service.objectives)} non-negative numbers that sum to 1 (others are scaled so that they do), as "
        f"the input {RAY!r} (one for the request, or one for each row) or as the parameter {RAY!r}.\n\n"
        f"Inputs: {inputs or 'the ray alone'}. Outputs: {', '.join(spec.name for spec in service.outputs)}."
        f"{_more(service)}\n\n"
        f"    {curl(service, 'http://HOST:PORT')}"
    )


def _more(service: Service) -> str:
    """Sentences about the default ray, decisions and columns, where there are any."""
    parts = []
    if service.default_ray is not None:
        parts.append(f"Requests without a ray get the default ray, {_listed(service.default_ray[0].tolist())}.")
    if service.decider is not None:
        parts.append("Requests that name the outputs probability or label get them.")
    if service.table is not None:
        parts.append("POST /v1/predict takes rows with column names.")
    return "".join(f" {part}" for part in parts)


def example(service: Service) -> dict[str, Any] | None:
    """Make a request for one row of zeros; None if it would be too long to read."""
    if any(spec.size > 64 or -1 in spec.shape for spec in service.inputs):
        return None
    inputs = [spec.metadata() | {"shape": [1, *spec.shape], "data": [0] * spec.size} for spec in service.inputs]
    return {"parameters": {RAY: _equal(service)}, "inputs": inputs}


def _equal(service: Service) -> list[float]:
    return [round(1 / len(service.objectives), 4)] * len(service.objectives)


def curl(service: Service, url: str) -> str:
    """A command line to try, for the log and the page: a row with column names for a table, else a row of zeros."""
    if service.table is not None and len(service.table.columns) <= 64:
        request: dict[str, Any] = {"rows": [dict.fromkeys(service.table.columns, 0)]}
        if service.default_ray is None:
            request["ray"] = _equal(service)
        text = json.dumps(request)
        if "'" not in text:
            return f"curl '{url}/v1/predict?model={service.name}' -d '{text}'"
    body = example(service)
    if body is None:
        return f"curl {url}/v2/models/{service.name}"
    return f"curl {url}/v2/models/{service.name}/infer -d '{json.dumps(body)}'"
