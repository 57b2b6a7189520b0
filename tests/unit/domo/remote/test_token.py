"""Which token a command shows, and to whom."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from domo.errors import AccessError
from domo.remote import token as remote
from domo.remote.token import given_token, reader
from domo_server.dashboard import create_app
from tests.support.played.made_up import Federation
from tests.support.played.people import TOKEN, made_people, token_of


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str | None]]:
    """The tokens that a coordinator is shown, which lets nobody read without one."""
    (tmp_path / "admin-token").write_text(f"{TOKEN}\n")
    monkeypatch.setattr(remote, "default_token_file", lambda: tmp_path / "admin-token")
    people, federation, shown = made_people(), Federation(), list[str | None]()
    app = create_app(federation, federation, people)
    token_of(people, "anna", "viewer")

    class Local(httpx.BaseTransport):
        """Requests go to the application, each on a loop of its own."""

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            import asyncio

            shown.append(request.headers.get("authorization"))

            async def go() -> httpx.Response:
                answer = await httpx.ASGITransport(app).handle_async_request(request)
                content = await answer.aread()
                return httpx.Response(answer.status_code, headers=answer.headers, content=content)

            return asyncio.run(go())

    real = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **given: real(transport=Local(), **given))
    yield shown
    people.close()


def test_this_machines_token_is_shown_here_only_and_once_it_is_asked_for(
    asked: list[str | None],
) -> None:
    with reader("http://127.0.0.1:8080") as here:
        assert here.status().num_silos_online == 1
        here.runs()
    assert asked == [None, f"Bearer {TOKEN}", f"Bearer {TOKEN}"]
    asked.clear()
    for elsewhere in ("http://domo.example.org", "http://10.0.0.1:8080", "http://127.0.0.1.evil"):
        with reader(elsewhere) as there, pytest.raises(AccessError, match="the role viewer"):
            there.status()
    assert asked == [None, None, None]


def test_a_token_that_was_given_is_shown_at_once(
    asked: list[str | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOMO_ADMIN_TOKEN", "of-the-older-name")
    assert given_token(None) == "of-the-older-name"
    monkeypatch.setenv("DOMO_TOKEN", "domo_of-anna")
    with reader("http://domo.example.org") as there:
        there.status()
    assert asked == ["Bearer domo_of-anna"]
    (tmp_path / "file").write_text("wrong")
    with (
        reader("http://domo.example.org", tmp_path / "file") as there,
        pytest.raises(AccessError, match="no token of this coordinator: give --token-file"),
    ):
        there.status()
    with reader("http://domo.example.org") as again:
        with again.again() as other:
            other.status()
        with pytest.raises(AccessError, match="anna has viewer"):
            again.stop("1-fedavg")
