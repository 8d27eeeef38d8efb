"""The notebook runs top to bottom, and is kept without results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_notebook_runs():
    nbclient = pytest.importorskip("nbclient", reason="make setup installs nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="make setup installs ipykernel")
    notebook = nbformat.read(PATH, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    printed = [
        output["text"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "stream" and output["name"] == "stdout"
    ]
    assert any(text.startswith("largest error") for text in printed)
    assert any("rounds" in text for text in printed)


def test_the_notebook_is_kept_without_results():
    cells = json.loads(PATH.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"]]
