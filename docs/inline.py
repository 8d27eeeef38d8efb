"""A hook of mkdocs: drawings are part of the page, so that they have its colours, light or dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "drawings"
DRAWING = re.compile(r'<p><img alt="(?P<alt>[^"]*)" src="[./]*drawings/(?P<name>\w+\.svg)" /></p>')
FIGURE = '<figure class="drawing" role="img" aria-label="{alt}" data-search-exclude>{svg}</figure>'


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    return DRAWING.sub(
        lambda found: FIGURE.format(alt=found["alt"], svg=(FOLDER / found["name"]).read_text()),
        html,
    )
