"""The examples do what their pages say, and the pages show the examples as they are."""

import ast
import re
import textwrap
from pathlib import Path

import pytest

from domo.commands.split import write_silo_folders
from domo.methods import PAPER_METHODS
from domo.run_config import RunConfig
from domo.simulation import SimulationResult, simulate
from domo.tasks import WHERE, load_task
from domo.trial import shard_silos
from domo_client.identity.tls import THEIRS
from tests.support.live.federation import ROOT

TASK = "examples.own_task:OwnTask"
NAMES = ("silo-0", "silo-1", "silo-2")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What `domo data split --silos 3 --out data` leaves."""
    folder = tmp_path / "data"
    write_silo_folders(load_task("digits"), tmp_path, 3, 0.05, 0, folder)
    return folder


def simulated(config: RunConfig, data: Path) -> SimulationResult:
    task = load_task(TASK)
    return simulate(config, task, shard_silos(task, data, NAMES, config.similarity, config.seed))


def code_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["own_task.py", "own_loop.py"])
def test_the_page_shows_the_example_as_it_is(name: str) -> None:
    text = (ROOT / "examples" / name).read_text()
    assert text in code_blocks(ROOT / "docs" / "bring-your-model.md")
    if name == "own_task.py":
        assert len(text.splitlines()) < 40


def test_the_loop_in_the_readme_is_the_one_of_the_example() -> None:
    (block,) = [b for b in code_blocks(ROOT / "README.md") if "silo.rounds" in b]
    assert textwrap.indent(block, "    ") in (ROOT / "examples" / "own_loop.py").read_text()


def test_the_own_task_learns_in_the_simulation(data: Path) -> None:
    config = RunConfig(task=TASK, method="DOMO", num_rounds=10, num_silos=3)
    accuracy = [r.metrics["accuracy"] for r in simulated(config, data).history]
    assert accuracy[0] < 0.3
    assert accuracy[-1] > 0.9


def test_every_text_of_the_page_of_error_texts_is_in_the_code() -> None:
    known = "\n".join(
        node.value
        for path in ROOT.glob("*/domo*/**/*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    page = (ROOT / "docs" / "error-texts.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    texts = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    assert len(texts) > 80
    for begin in (THEIRS, WHERE):  # texts that begin others
        assert any(begin in text for text in texts)
        texts = [text.replace(begin, f"{begin}...") for text in texts]
    pieces = {p.strip(" ().;:,'=") for text in texts for p in re.split(r"\.\.\.+", text)}
    assert not [piece for piece in sorted(pieces) if piece not in known]


def test_the_numbers_of_the_readme_are_those_of_the_comparison() -> None:
    def means(page: str) -> dict[str, tuple[str, str]]:
        rows = [re.sub(r"[*\s]", "", line).split("|") for line in page.splitlines()]
        rows = [row for row in rows if len(row) > 6 and row[1] in PAPER_METHODS]
        numbers = {row[1]: [c for c in row if re.fullmatch(r"\d+\.\d+", c)] for row in rows}
        return {method: (found[0], found[1]) for method, found in numbers.items()}

    readme = means((ROOT / "README.md").read_text())
    assert set(readme) == set(PAPER_METHODS)
    assert readme == means((ROOT / "docs" / "quick-comparison.md").read_text())
