"""The models of a server, by name and version. A reload replaces all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hyperfront.apps.serve.batching import Batcher
from hyperfront.apps.serve.options import ServiceOptions
from hyperfront.apps.serve.service import Service
from hyperfront.apps.serve.state import ServerState
from hyperfront.apps.shared.refusal import Refusal
from hyperfront.errors import HyperfrontError

FORMS = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
"""The addresses of a model: of its latest version, and of each version."""


class Served(NamedTuple):
    """One version of a model, and the queue of its requests."""

    service: Service
    batcher: Batcher


class Target(NamedTuple):
    """What the address of an infer route means: a model, and the pattern of the address for logs and metrics."""

    served: Served
    pattern: str


class Models:
    """The models that requests can name."""

    def __init__(self, services: Sequence[Service], server: ServerState):
        self.all = [Served(service, _batcher(service, server.settings, server)) for service in services]
        self.by_name: dict[str, dict[str, Served]] = {}
        for served in self.all:
            name, version = served.service.name, served.service.version
            if version in self.by_name.setdefault(name, {}):
                raise HyperfrontError(
                    "two models have the same name and version",
                    got=f"{name}, version {version}",
                    expected="a name or a version of its own for each",
                    fix="serve_model(..., name=...); NAME=RUN on the command line",
                )
            self.by_name[name][version] = served
        self.infer = {path: target for name in self.by_name for path, target in self._addresses(name)}
        """The infer routes by path, which are found without a router."""
        self.users = 0
        """Requests in progress."""
        self._unused: asyncio.Event | None = None

    def listed(self) -> list[str]:
        """The names, each with its versions if there are several: ``["adult/1,2", "bank"]``."""
        return [name if len(v) == 1 else f"{name}/{','.join(v)}" for name, v in self.by_name.items()]

    @property
    def services(self) -> list[Service]:
        return [served.service for served in self.all]

    def find(self, name: str, version: str | None = None) -> Served:
        """The model with this name and version (default: the latest)."""
        versions = self.by_name.get(name)
        if versions is None:
            raise Refusal("unknown model", got=name[:80], expected=" or ".join(self.by_name), status=404)
        if version is None:
            return self.latest(name)
        if version not in versions:
            raise Refusal("unknown version of the model", got=version[:80], expected=" or ".join(versions), status=404)
        return versions[version]

    def latest(self, name: str) -> Served:
        """The version with the largest number."""
        return max(self.by_name[name].items(), key=lambda item: int(item[0]))[1]

    def chosen(self, asked: Mapping[str, str]) -> Served:
        """The model of the parameters ``model`` and ``version`` of an address; the first is needed if there are
        several."""
        name = asked.get("model")
        if name is None and len(self.by_name) > 1:
            names = ", ".join(self.by_name)
            raise Refusal("the address names no model", expected=f"?model=NAME, with one of {names}")
        return self.find(next(iter(self.by_name)) if name is None else name, asked.get("version"))

    def _addresses(self, name: str) -> list[tuple[str, Target]]:
        plain, versioned = (f"{form}/infer" for form in FORMS)
        found = [(plain.format(name=name), Target(self.latest(name), plain))]
        for version, served in self.by_name[name].items():
            found.append((versioned.format(name=name, version=version), Target(served, versioned)))
        return found

    def enter(self) -> Callable[[], None]:
        """Count a request that uses these models, until it calls what this returns."""
        self.users += 1
        inside = True

        def leave() -> None:
            nonlocal inside
            if inside:
                inside = False
                self.users -= 1
                if self._unused is not None and not self.users:
                    self._unused.set()

        return leave

    async def retire(self) -> None:
        """Wait for the requests in progress, then end the threads. New requests must go to other models."""
        self._unused = asyncio.Event()
        if self.users:
            await self._unused.wait()
        await self.close()

    async def close(self) -> None:
        """Answer the requests that wait, then end the threads."""
        for served in self.all:
            await served.batcher.close()


def _batcher(service: Service, settings: ServiceOptions, server: ServerState) -> Batcher:
    return Batcher(
        service.predict,
        seconds=service.seconds,
        max_rows=None if service.separate else settings.batch_rows,
        observe=server.metrics.batch,
    )
