import os

import pytest

from domo.ops import proxies

HOST = "coordinator.example"


@pytest.fixture(autouse=True)
def _none(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [v for v in os.environ if v.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)


def set_all(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for variable, value in values.items():
        monkeypatch.setenv(variable, value)


# how grpc reads them was tried with grpc 1.85


@pytest.mark.parametrize(
    ("values", "variable"),
    [
        ({"grpc_proxy": "http://p:1", "http_proxy": "http://q:1"}, "grpc_proxy"),
        ({"https_proxy": "http://p:1", "http_proxy": "http://q:1"}, "https_proxy"),
        ({"http_proxy": "http://p:1/"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "no_proxy": "*"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "no_proxy": "coordinator.*"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "no_proxy": f"{HOST}:50051"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "no_proxy": f"a;{HOST}"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "no_proxy": f"a {HOST}:1"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "NO_PROXY": HOST}, "http_proxy"),
        ({"http_proxy": "http://p:1", "no_proxy": f"a, {HOST}"}, None),
        ({"http_proxy": "http://p:1", "no_proxy": ".example"}, None),
        ({"http_proxy": "http://p:1", "no_proxy": f".{HOST}"}, None),
        ({"http_proxy": "http://p:1", "no_grpc_proxy": "EXAMPLE"}, None),
        ({"grpc_proxy": "", "http_proxy": "http://p:1"}, None),
        ({"http_proxy": "socks5://p:1"}, None),
        ({"http_proxy": "p:1"}, None),
        ({"all_proxy": "http://p:1"}, None),
        ({"HTTPS_PROXY": "http://p:1"}, None),
    ],
)
def test_the_proxy_of_grpc(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], variable: str | None
) -> None:
    set_all(monkeypatch, **values)
    found = proxies.of_grpc(HOST)
    assert (found and found.variable) == variable


def test_a_range_of_addresses_is_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, http_proxy="http://p:1", no_proxy="10.0.0.0/8")
    assert proxies.of_grpc("10.1.2.3") is None
    assert proxies.of_grpc("11.1.2.3") is not None


def test_the_note_says_variable_proxy_and_cure_and_no_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, https_proxy="http://user:hunter2@proxy.example:3128", no_proxy="a")
    text = (
        "; the variable https_proxy sends this through the proxy proxy.example:3128: to go past "
        f"it, export no_proxy=a,{HOST}"
    )
    assert proxies.note_of_grpc(HOST) == text
    assert proxies.note_of_http(f"https://{HOST}/x") == text
    assert proxies.note_of_http(f"http://{HOST}/x") == ""
    assert proxies.note_of_http("https://a/x") == ""


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"HTTPS_PROXY": "http://u:hunter2@p:1"},
            "the proxy of HTTPS_PROXY: grpc reads grpc_proxy",
        ),
        ({"all_proxy": "http://p:1"}, "the proxy of all_proxy: grpc reads grpc_proxy, https_proxy"),
        (
            {"https_proxy": "socks5://u:hunter2@p:1"},
            "the proxy of https_proxy: grpc takes a proxy of the form http://HOST:PORT only, not "
            "socks5",
        ),
        ({"http_proxy": "u:hunter2@p:1"}, "http://HOST:PORT only, not no scheme"),
    ],
)
def test_a_proxy_that_grpc_does_not_take_is_said_where_nobody_is_reached(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], text: str
) -> None:
    set_all(monkeypatch, **values)
    note = proxies.note_of_grpc(HOST)
    assert note.startswith("; dialled without the proxy of ")
    assert text in note
    assert "hunter2" not in note
    assert proxies.note_of_grpc(HOST, reached=True) == ""
    assert proxies.note_of_grpc("127.0.0.1") == ""


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_the_proxy_of_http(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    set_all(monkeypatch, **{variable: "socks5://u:hunter2@p:1"})
    note = proxies.note_of_http(f"http://{HOST}:8080")
    assert f"the variable {variable} sends this through the proxy p:1" in note
    assert "hunter2" not in note
