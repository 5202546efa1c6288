"""The fence around the explorer: only the page itself, in a browser on this machine, gets answers."""

from __future__ import annotations

import hmac
from collections.abc import Collection

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hyperfront.apps.shared.hosts import host_of


class Fence:
    """ASGI middleware that lets requests pass below ``/TOKEN/`` and, unless ``hosts`` is empty, to one of the hosts."""

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str] = ()):
        self.app, self.prefix, self.hosts = app, f"/{token}/", hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refuse(scope) if scope["type"] == "http" else None
        if refused is None:
            await self.app({**scope, "root_path": self.prefix[:-1]}, receive, send)
        else:
            status, reason = refused
            await PlainTextResponse(reason, status)(scope, receive, send)

    def _refuse(self, scope: Scope) -> tuple[int, str] | None:
        headers = dict(scope["headers"])
        if self.hosts and host_of(headers.get(b"host", b"")) not in self.hosts:
            return 400, f"The explorer answers only requests to {', '.join(self.hosts)}."
        start = scope["path"][: len(self.prefix)]
        if not hmac.compare_digest(start.encode(), self.prefix.encode()):
            return 403, "Open the whole address that hyperfront printed: it holds a secret that this one lacks."
        if headers.get(b"sec-fetch-site") == b"cross-site" and scope["path"] != self.prefix:
            return 403, "Other pages may link to the explorer, but not use it."
        return None
