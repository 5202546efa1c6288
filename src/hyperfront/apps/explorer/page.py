"""The page as one text with markup, style, script and data. It loads no other file and needs no build step.

The live page and the static page differ in their data only. A content security policy allows only this script, and
connections only to the server of the page.
"""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import Any

from hyperfront.apps.shared.pages import policy

SCRIPTS = """
    words simplex surface search backend state drawing axes plane space ternary parallel scatter frontview handle
    readout sure certificate limits painting tables kinds samples pins evolution link app
""".split()  # noqa: SIM905 (easier to read)
"""The scripts in order: each file uses names of earlier files."""


def page(document: dict[str, Any]) -> str:
    """The HTML for a document of :mod:`hyperfront.apps.explorer.document`."""
    files = resources.files("hyperfront.apps.explorer") / "web"
    style = (files / "style.css").read_text("utf-8")
    script = "\n".join(['"use strict";', *((files / f"{name}.js").read_text("utf-8") for name in SCRIPTS)])
    # no tag in a name may end the element early
    data = json.dumps(document, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(f"{document['title'] or document['name']} - hyperfront"),
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
