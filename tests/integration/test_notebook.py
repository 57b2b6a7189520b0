"""The notebook's cells, run in order."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.live.federation import ROOT


def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text("utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    held: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "the notebook", "exec"), held)
    assert held["result"].accuracies[-1] > held["result"].accuracies[0]
    assert held["accuracies"][-1] > 0.8
    assert Path("quadrants.safetensors").exists()
    assert not any(c.get("outputs") for c in notebook["cells"]), "it is stored without outputs"
