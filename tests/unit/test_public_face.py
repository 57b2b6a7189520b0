"""What users import: pinned, lazy, and all that the docs and examples use."""

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import domo
import domo_client
from tests.support.live.federation import ROOT

DOMO = [
    "METHODS",
    "PRESETS",
    "AccessError",
    "ArrayDataset",
    "BatchLoader",
    "Collated",
    "ConfigError",
    "Coordinator",
    "CoordinatorUnavailableError",
    "DeadlineError",
    "DivergenceError",
    "DomoError",
    "History",
    "HistoryComparison",
    "IncompleteRoundError",
    "InputForm",
    "LayoutMismatchError",
    "LocalRound",
    "Meaning",
    "MeaningMismatchError",
    "ModelCard",
    "ModelRecord",
    "NotFoundError",
    "ProtocolError",
    "RoundError",
    "RunConfig",
    "Shard",
    "SimulationResult",
    "StateError",
    "StrayParameterError",
    "Sum",
    "Task",
    "TaskError",
    "TransportError",
    "__version__",
    "classification_sums",
    "compare",
    "cross_entropy_loss",
    "load_card",
    "load_task",
    "load_weights",
    "meaning_of",
    "metrics",
    "save_initial",
    "simulate",
]
CLIENT = [
    "LostRunError",
    "Offer",
    "Outcome",
    "Silo",
    "SiloMetrics",
    "TlsFiles",
    "UnknownRunError",
    "connect",
]
TESTING = {
    "domo_client.testing": ["Tried", "try_task"],
    "domo_server.testing": ["Coordinator", "coordinator"],
}
METRICS = ["Sum", "Table", "auc", "average_precision", "calibration", "confusion", "regression"]
FACES = {"domo": DOMO, "domo.metrics": METRICS, "domo_client": CLIENT, **TESTING}
INSIDE = ("algorithm.md", "data-plane.md", "development.md", "protocol.md", "quick-comparison.md")
"""Pages about the code itself."""
PAGES = [ROOT / "README.md", *(p for p in (ROOT / "docs").glob("*.md") if p.name not in INSIDE)]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


SNIPPETS = {f"{p.name} {i}": text for p in PAGES for i, text in enumerate(blocks(p))}
SNIPPETS |= {
    str(p.relative_to(ROOT)): p.read_text("utf-8") for p in (ROOT / "examples").rglob("*.py")
}


@pytest.mark.parametrize(("name", "public"), FACES.items(), ids=list(FACES))
def test_the_names_are_pinned_and_there(name: str, public: list[str]) -> None:
    module = importlib.import_module(name)
    assert module.__all__ == public
    assert all(getattr(module, n) is not None for n in public)


@pytest.mark.parametrize("module", [domo, domo_client])
def test_type_checkers_see_the_same_names(module) -> None:
    """What is imported for them is what is imported at first use."""
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    (seen,) = [
        n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    ]
    told = {a.name: i.module for i in seen.body for a in i.names}
    told |= {name: f"domo.{name}" for name, home in told.items() if home == "domo"}  # a module
    assert told == module._HOME
    assert sorted(told) == sorted(n for n in module.__all__ if n != "__version__")
    with pytest.raises(AttributeError, match="no attribute 'nothing_like_it'"):
        module.nothing_like_it  # noqa: B018
    assert dir(module) == sorted(module.__all__)


def used(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name) of everything of domo that a piece of code uses."""
    known = set(FACES)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("domo"):
            yield from ((node.module or "", a.name) for a in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.startswith("domo"))
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            dotted = re.fullmatch(r"domo[\w.]*", owner)
            if dotted and f"{owner}.{node.attr}" not in known:
                yield owner, node.attr


@pytest.mark.parametrize("name", SNIPPETS)
def test_docs_and_examples_use_the_public_face_alone(name: str) -> None:
    for module, attribute in used(ast.parse(SNIPPETS[name])):
        assert module in FACES, f"{name}: {module} is not public"
        assert not attribute or attribute in FACES[module], f"{name}: {module}.{attribute}"


def test_the_text_of_the_docs_names_no_module_inside() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
        for path, call in re.findall(r"(?<![\w./])(domo(?:_[a-z]+)?(?:\.\w+)+)(\(?)", text):
            owner, _, name = path.rpartition(".")
            inside = importlib.util.find_spec(".".join(path.split(".")[:2])) is not None
            if inside or call:
                assert path in FACES or name in FACES.get(owner, ()), f"{page.name}: {path}"
