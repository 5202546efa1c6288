"""The page as one text: markup, style, script and data in it, nothing to fetch, nothing to build.

The live page and the file that can be mailed are the same; they differ in the data. A content security policy allows
this very script and no other, and no connection but to the server that the page came from.
"""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import Any

from hyperfront.apps.shared.pages import policy

SCRIPTS = """
    words simplex surface search backend state drawing plane space ternary parallel frontview handle readout limits
    painting kinds samples pins evolution sharing app
""".split()  # noqa: SIM905 (easier to read)
"""From the ground up: each file uses names of those before it."""


def page(document: dict[str, Any]) -> str:
    """The HTML for a document of :mod:`hyperfront.apps.explorer.document`."""
    files = resources.files("hyperfront.apps.explorer") / "web"
    style = (files / "style.css").read_text("utf-8")
    script = "\n".join(['"use strict";', *((files / f"{name}.js").read_text("utf-8") for name in SCRIPTS)])
    # no tag may end the element early, whatever the objectives are called
    data = json.dumps(document, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(f"{document['name']} - hyperfront"),
        "POLICY": policy(style, script),
        "STYLE": style,
        "DATA": data,
        "SCRIPT": script,
    }
    text = (files / "index.html").read_text("utf-8")
    for name, part in parts.items():
        head, mark, tail = text.partition(f"{{{{{name}}}}}")
        text = head + (part if mark else "") + tail
    return text
