"""The kinds of events: each is used, documented, and known to webhooks by one name."""

import re
from pathlib import Path
from typing import get_args

import domo_server
from domo.api.schema import ENDED
from domo_server.config import HookEvent
from domo_server.events import kinds
from domo_server.events.kinds import KINDS, EventKind
from domo_server.store.rows import EventRow
from domo_server.view.rows import event_of

DOCS = Path(__file__).parents[4] / "docs"
SOURCE = {p: p.read_text() for p in Path(domo_server.__file__).parent.rglob("*.py")}


def test_each_is_used() -> None:
    names = {name for name, value in vars(kinds).items() if isinstance(value, EventKind)}
    assert len(names) == len(KINDS)
    used = set(re.findall(r"\bkinds\.([A-Z_]+)\b", "".join(SOURCE.values())))
    assert "ENDS" in used
    assert names - used == {kind.name.upper() for kind in kinds.ENDS.values()} - used


def test_a_literal_is_said_nowhere() -> None:
    for path, text in SOURCE.items():
        assert re.findall(r"(?:events|run|self)\._?say\(\s*f?\"[a-z-]+\"", text) == [], path


def test_the_ends_of_a_run() -> None:
    assert tuple(kinds.ENDS) == ENDED
    assert [kind.name for kind in kinds.ENDS.values()] == [state.lower() for state in ENDED]


def test_each_is_documented() -> None:
    row = r"^\| `([\w-]+)` \| (info|problem) \| (red |yellow |)\| (?:`([\w-]+)` )?\| \S.* \|$"
    found = re.findall(row, (DOCS / "rest.md").read_text(), re.M)
    assert found == [
        (kind.name, kind.level, f"{kind.colour} " if kind.colour else "", kind.webhook or "")
        for kind in KINDS.values()
    ]


def test_what_webhooks_may_ask_for() -> None:
    hooks = {kind.webhook for kind in KINDS.values() if kind.webhook}
    assert hooks == set(get_args(HookEvent))
    (row,) = re.findall(r"^\| `events` \|.*$", (DOCS / "configuration.md").read_text(), re.M)
    assert hooks <= set(re.findall(r"[`\"]([\w-]+)[`\"]", row))


def test_problems_are_coloured_and_names_fit_the_database() -> None:
    for kind in KINDS.values():
        assert kind.colour is not None or kind.level == "info", kind
        assert len(kind.name) <= 32


def test_an_event_of_a_kind_that_another_version_knows_is_plain() -> None:
    event = event_of(EventRow(1, "then", "of-tomorrow", "text", None, None))
    assert (event.kind, event.level, event.colour) == ("of-tomorrow", "info", None)
