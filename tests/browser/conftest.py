"""What tests of the page share: marks, REST over a federation, a browser that is logged in.

A module with a federation of its own overrides `federation`; one that shows a real coordinator, or
that wants to begin as nobody, overrides `served` or `page`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chrome import Page, chrome
from tests.support.played.made_up import Federation
from tests.support.played.people import TOKEN
from tests.support.played.serving import Served, serving

MARKS = (
    pytest.mark.slow,
    # selenium's client leaves closing of its sockets to the collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for mark in MARKS:
                item.add_marker(mark, append=False)


@pytest.fixture(scope="module")
def federation() -> Federation:
    return Federation()


@pytest.fixture(scope="module")
def served(federation: Federation) -> Iterator[tuple[str, Served]]:
    """The address of a dashboard over the federation, and its server."""
    with serving(federation) as it:
        yield it


@pytest.fixture(scope="module")
def browser(served: tuple[str, Served], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser that nobody has used."""
    with chrome(served[0], tmp_path_factory.mktemp("downloads")) as it:
        yield it


@pytest.fixture(scope="module")
def page(browser: Page) -> Iterator[Page]:
    """The admin's browser; no script of the page may have failed at the end."""
    browser.log_in(TOKEN)
    yield browser
    assert browser.errors() == []
