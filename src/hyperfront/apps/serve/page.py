"""The OpenAPI document as a page that loads no other file."""

from __future__ import annotations

import html
import json
from typing import Any

from hyperfront.apps.shared.pages import policy

_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 14px/1.45 ui-monospace, monospace }
code, pre { overflow-wrap: anywhere; white-space: pre-wrap }
pre { padding: .8rem 1rem; border: 1px solid #8886; border-radius: .4rem }
details { border: 1px solid #8886; border-radius: .4rem; margin: .6rem 0; padding: .5rem 1rem }
summary { cursor: pointer }
.method { display: inline-block; min-width: 3.5rem; font-weight: 600 }
"""


def render(document: dict[str, Any]) -> str:
    """Render the page: an introduction, then each route with its parameters, schemas and responses."""
    info = document["info"]
    routes = [
        _route(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    title = html.escape(info["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(_STYLE)}"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1>{_paragraphs(info.get('description', ''))}"
        f"<h2>Routes</h2>{''.join(routes)}"
        '<p>For programs: <a href="openapi.json">openapi.json</a></p></body></html>'
    )


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    answers = "".join(
        f"<li><code>{html.escape(status)}</code> {html.escape(response.get('description', ''))}</li>"
        for status, response in operation["responses"].items()
    )
    shown = "".join(f"<h4>Body: {html.escape(kind)}</h4>{_schema(content)}" for kind, content in body.items())
    return (
        f'<details><summary><span class="method">{method.upper()}</span> <code>{html.escape(path)}</code> '
        f"{html.escape(operation.get('summary', ''))}</summary>{_paragraphs(operation.get('description', ''))}{shown}"
        f"<h4>Responses</h4><ul>{answers}</ul></details>"
    )


def _schema(content: dict[str, Any]) -> str:
    shown = content.get("example", content.get("schema", {}))
    return f"<pre>{html.escape(json.dumps(shown, indent=2))}</pre>"


def _paragraphs(text: str) -> str:
    """Render paragraphs; lines that begin with four spaces are preformatted."""
    parts = [part for part in text.split("\n\n") if part.strip()]
    return "".join(
        f"<pre>{html.escape(part.strip())}</pre>" if part.startswith("    ") else f"<p>{html.escape(part)}</p>"
        for part in parts
    )
