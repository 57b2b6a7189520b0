"""The tree: no circle of imports, no crowded room, no long module that nobody answers for."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

import domo
import domo_client
import domo_proto
import domo_server

FOLDERS = {p.__name__: Path(p.__path__[0]) for p in (domo, domo_proto, domo_server, domo_client)}
MOST_MODULES, MOST_LINES = 12, 300
LONG = {
    "domo.run_config",  # one table of settings, with its rules
    "domo_server.store.store",  # one table of statements
}
"""Every module above MOST_LINES. A row goes when its module has become shorter."""
NO_ROOMS = ("domo_proto.v1", "domo_server.store.migrations.versions")
"""Generated code, and a folder that grows by a file with each change of the database."""


@pytest.fixture
def graph() -> grimp.ImportGraph:
    """All imports, those inside functions too, but for those that type checkers alone see."""
    return grimp.build_graph(*FOLDERS, exclude_type_checking_imports=True, cache_dir=None)


def circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """The sets of modules that all reach one another."""
    reached = {m: graph.find_upstream_modules(m) for m in graph.modules}
    found = {tuple(sorted({m, *(n for n in reached[m] if m in reached[n])})) for m in graph.modules}
    return sorted(list(together) for together in found if len(together) > 1)


def modules() -> Iterator[tuple[str, Path]]:
    """The name and the file of every module."""
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *parts))
            if not name.startswith(NO_ROOMS) and parts[-1] != "__init__":
                yield name, path


def test_no_imports_go_in_a_circle(graph: grimp.ImportGraph) -> None:
    assert circles(graph) == []


def test_a_circle_would_be_found(graph: grimp.ImportGraph) -> None:
    assert graph.direct_import_exists(importer="domo.algorithm.server", imported="domo.fold")
    assert graph.direct_import_exists(importer="domo.simulation", imported="domo.algorithm")
    graph.add_import(importer="domo.fold", imported="domo.simulation")
    (found,) = circles(graph)
    assert {"domo.fold", "domo.algorithm.server", "domo.simulation"} <= set(found)


def test_no_room_is_crowded() -> None:
    rooms = Counter(name.rpartition(".")[0] for name, _ in modules())
    assert {"domo", "domo.model", "domo_server.rounds", "domo_client.doctor.checks"} <= set(rooms)
    assert {room: n for room, n in rooms.items() if n > MOST_MODULES} == {}


def test_long_modules_are_listed() -> None:
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules()}
    assert {name for name, n in lines.items() if n > MOST_LINES} == LONG


def test_every_room_says_what_it_is() -> None:
    rooms = {path.parent for _, path in modules()}
    assert all((room / "__init__.py").read_text("utf-8").startswith('"""') for room in rooms)
