"""docs/limits.md has every limit of the source with its value, and what it says of them holds."""

import ast
import re
from collections.abc import Iterator

import pytest

from domo.run_config import RunConfig
from domo_server.config import ServerConfig
from tests.support import limits
from tests.support.limits import ROOT, Limit, quantity

PAGE = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
SHORT = re.findall(r"^\| [^`|]+ \| ([^|]+ < [^|]+) \| `([^`|]+)` \|$", PAGE, re.MULTILINE)
TABLES = (("[server]", ServerConfig), ("[[runs]]", RunConfig))
CLAIMS = re.findall(r"^\| `([^`]+ (?:<|<=|==) [^`]+)` \|", PAGE, re.MULTILINE)


def _rows() -> Iterator[Limit]:
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| `") or len(cells) != 5:
            continue
        names, values = re.findall(r"`([^`]+)`", cells[0]), cells[1].split("; ")
        assert len(names) == len(values), line
        for name, value in zip(names, values, strict=True):
            match = re.fullmatch(r"(.+?)(?: \(up to (.+)\))?", value)
            assert match is not None
            told = None if match[1] == "none" else quantity(match[1])
            assert told is not None or match[1] == "none", f"{name}: {value} is no number"
            yield Limit(cells[2].strip("`"), name, told, quantity(match[2]) if match[2] else None)


@pytest.fixture(scope="module")
def found() -> list[Limit]:
    return limits.every(*TABLES)


def test_every_limit_is_on_the_page_with_its_value(found: list[Limit]) -> None:
    told = {(row.where, row.name): row for row in _rows()}
    missing = [limit for limit in found if (limit.where, limit.name) not in told]
    assert not missing, f"not in docs/limits.md: {missing}"
    wrong = [(limit, told[limit.where, limit.name]) for limit in found]
    wrong = [(limit, row) for limit, row in wrong if not _alike(limit, row)]
    assert not wrong, f"another value in docs/limits.md: {wrong}"


def _alike(limit: Limit, row: Limit) -> bool:
    if limit.value is None or row.value is None:
        return limit.value == row.value and limit.most == row.most
    return abs(limit.value - row.value) <= 1e-9 * abs(limit.value) and limit.most == row.most


def test_nothing_is_on_the_page_that_is_not_in_the_source(found: list[Limit]) -> None:
    known = {(limit.where, limit.name) for limit in found}
    assert not [row for row in _rows() if (row.where, row.name) not in known]


def test_a_number_that_is_a_limit_has_a_name() -> None:
    assert not list(limits.nameless(*(model for _, model in TABLES)))


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_the_page_says_of_their_order_holds(claim: str, found: list[Limit]) -> None:
    spaces = limits.namespace(found)
    for node in ast.walk(ast.parse(claim, mode="eval")):
        if isinstance(node, ast.Name):
            assert node.id in spaces, f"{claim}: nothing is called {node.id}"
    assert eval(claim, {"__builtins__": {}}, spaces), claim  # of the page, which is ours


@pytest.mark.parametrize(("words", "claim"), SHORT)
def test_what_it_says_in_short_are_the_same_numbers(
    words: str, claim: str, found: list[Limit]
) -> None:
    spaces, parts = limits.namespace(found), words.split(" < ")
    told = [re.findall(r"[\d.]+ (?:s|h)\b", part) for part in parts]
    terms = [eval(term, {"__builtins__": {}}, spaces) for term in claim.split(" < ")]
    assert [[quantity(one) for one in part] for part in told] == [[term] for term in terms]
    assert terms == sorted(terms)


def test_the_page_says_how_they_nest() -> None:
    assert len(CLAIMS) > 30
    assert len(SHORT) == 8


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(3)",
        "asyncio.wait_for(x, timeout=2.5)",
        "deque(maxlen=7)",
        "sleep(min(2.0, x))",
        "def f(patience_s=60.0): ...",
        "options = {'connect_timeout': 4}",
        "options = [('grpc.max_reconnect_backoff_ms', 10_000)]",
    ],
)
def test_a_plain_number_is_found(code: str) -> None:
    nodes = list(ast.walk(ast.parse(code)))
    assert any(list(limits._nameless_in(node, ())) for node in nodes)
    nodes = list(ast.walk(ast.parse(re.sub(r"\b\d[\d_.]*", "NAME", code))))
    assert not any(list(limits._nameless_in(node, ())) for node in nodes)
