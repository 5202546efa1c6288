"""A page that holds a plotly figure, and plotly.js to draw it: one file that needs no network."""

from __future__ import annotations

import base64
import gzip
import html
from functools import cache
from pathlib import Path

import plotly.graph_objects as go
from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs

from hyperfront.front.plots import PAPER

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>html, body {{ margin: 0; height: 100%; background: {paper}; }} body > div {{ height: 100vh; min-height: 480px; }}
</style>
</head>
<body>
<div id="hyperfront"></div>
<script type="application/octet-stream" id="library">{library}</script>
<script type="application/json" id="figure">{figure}</script>
<script>
async function draw() {{
  const text = (id) => document.getElementById(id).textContent;
  const packed = new Blob([Uint8Array.from(atob(text("library")), (letter) => letter.charCodeAt(0))]);
  const library = document.createElement("script");
  library.textContent = await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(library);
  Plotly.newPlot("hyperfront", JSON.parse(text("figure")));
}}
draw();
</script>
</body>
</html>
"""
CONFIG = {"displaylogo": False, "responsive": True, "toImageButtonOptions": {"format": "svg"}}
CONFIG |= {"showSendToCloud": False}  # plotly shows a button that sends the data to its cloud by default


def write(figure: go.Figure, path: Path) -> None:
    """Write one page that fills the window, with plotly.js inside: no network is needed to read it.

    The library is compressed, which makes a page of 2 MB instead of 5; browsers have the decompressor since 2023.
    """
    drawn = {**figure.to_plotly_json(), "config": CONFIG}
    title = html.escape(drawn["layout"].get("title", {}).get("text", "hyperfront"))
    data = to_json_plotly(drawn).replace("<", "\\u003c")  # no name may end the element early
    path.write_text(PAGE.format(title=title, paper=PAPER, library=_library(), figure=data), encoding="utf-8")


@cache
def _library() -> str:
    """plotly.js, compressed, in base64."""
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
