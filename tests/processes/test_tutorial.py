"""The tutorial, run from a clean kernel: it gives what is stored in it."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.live.federation import ROOT

TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
DIGEST = re.compile(r"\b[0-9a-f]{32}\b")
"""Of a checkpoint's bytes: another kind of CPU may have others."""


def test_what_is_stored_is_small_and_whole() -> None:
    notebook = json.loads(TUTORIAL.read_text("utf-8"))
    assert TUTORIAL.stat().st_size < 250_000
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1)), "run in order"
    kinds = [o["output_type"] for c in code for o in c["outputs"]]
    assert "error" not in kinds
    assert "stream" not in kinds, "no warning, no log line"
    assert sum("image/png" in o.get("data", {}) for c in code for o in c["outputs"]) == 4
    first = "".join(code[0]["source"]).strip().splitlines()
    assert len([line for line in first if line]) <= 5 + 1, "import, and five lines"


@pytest.mark.slow
def test_it_gives_what_is_stored(tmp_path: Path) -> None:
    out = tmp_path / "tutorial.ipynb"
    command = [sys.executable, str(ROOT / "scripts/notebook.py"), str(TUTORIAL), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for stored, now in zip(told(TUTORIAL), told(out), strict=True):
        assert now == stored, "python scripts/notebook.py docs/tutorial.ipynb stores it again"


def told(path: Path) -> list[Any]:
    """Every cell and what it gives; of a picture that it is one."""
    found: list[Any] = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        outputs = []
        for output in cell.get("outputs", ()):
            data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
            if "image/png" in data:
                assert base64.b64decode(data.pop("image/png")).startswith(b"\x89PNG")
                data = {"image/png": ""}  # its bytes and the size in words are matplotlib's
            shown = {kind: DIGEST.sub("DIGEST", text) for kind, text in data.items()}
            outputs.append((output["output_type"], shown, output.get("text")))
        found.append(("".join(cell["source"]), outputs))
    return found
