"""The examples do what their pages say, and the pages show the examples as they are."""

import ast
import re
import textwrap
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from domo.commands.silos import shard_silos
from domo.commands.split import write_silo_folders
from domo.methods import PAPER_METHODS
from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulationResult, simulate
from domo.tasks import load_task
from domo.training.initial import build_initial
from tests.support.live.federation import ROOT, Process, federation

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
    (block,) = code_blocks(ROOT / "README.md")
    assert textwrap.indent(block, "    ") in (ROOT / "examples" / "own_loop.py").read_text()


def test_the_own_task_learns_in_the_simulation(data: Path) -> None:
    config = RunConfig(task=TASK, method="DOMO", num_rounds=10, num_silos=3)
    accuracy = [r.metrics["accuracy"] for r in simulated(config, data).history]
    assert accuracy[0] < 0.3
    assert accuracy[-1] > 0.9


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_agents_and_an_own_loop_train_together_and_end_with_the_simulated_bytes(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x0 = tmp_path / "x0.safetensors"
    settings = {"task": TASK, "num_rounds": 5, "num_silos": 3, "initial_model": str(x0)}
    config = validate(RunConfig, settings, "test")
    save_model(x0, *build_initial(load_task(TASK), config.seed))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with federation(tmp_path) as fed:
        fed.start_server(
            f'[[runs]]\nname = "own"\ntask = "{TASK}"\nnum_rounds = 5\nnum_silos = 3\n'
            f'initial_model = "{x0}"\n',
            "--exit-when-done",
        )
        for name in NAMES[:2]:
            fed.start_silo(name, "--task", TASK, "--data", str(data / name))
        command = ["python", "-m", "examples.own_loop", fed.address, "silo-2", str(data / "silo-2")]
        loop = Process(command, tmp_path / "loop.log", tmp_path)
        try:
            assert loop.wait(120) == 0, loop.output
        finally:
            loop.kill()
        fed.finish()
        model = load_file(fed.state_dir / "runs" / "1-own" / "model.safetensors")
    result = simulated(config, data)
    expected = result.layout.state_dict(result.vectors)
    assert model.keys() == expected.keys()
    assert all(torch.equal(model[name], expected[name]) for name in expected)


def test_every_error_text_of_the_operations_page_is_in_the_code() -> None:
    known = "\n".join(
        node.value
        for path in ROOT.glob("*/domo*/**/*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    page = (ROOT / "docs" / "operations.md").read_text().partition("\n## Error texts\n")[2]
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    texts = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    assert len(texts) > 80
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
