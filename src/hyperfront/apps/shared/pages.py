"""The content security policy of an HTML page with its style and script inside, and the headers beside it."""

from __future__ import annotations

import base64
import hashlib


def policy(style: str, script: str | None = None) -> str:
    """Make a policy that allows only this style, this script, and connections to the page's own server.

    >>> policy("p { margin: 0 }").split("; ")[:2]
    ["default-src 'none'", "style-src 'sha256-7IWhgxoOGTB5NQzjGk9OPt0FwhVeBvZGoWgF9xLLh8c='"]
    """
    own = [f"style-src '{_hash(style)}'"]
    if script is not None:
        own += [f"script-src '{_hash(script)}'", "img-src data: blob:", "connect-src 'self'"]
    return "; ".join(["default-src 'none'", *own, "base-uri 'none'", "form-action 'none'"])


def headers(frames: str = "'none'") -> dict[str, str]:
    """The headers of a page, which only pages of the origins in ``frames`` may show inside themselves."""
    return {
        "Content-Security-Policy": f"frame-ancestors {frames}",  # this works only in headers, the policy also in pages
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
