"""`domo-server check`, of the page: TLS, the proxies before it, log-in at a provider."""

from pathlib import Path

import pytest

from tests.integration.test_check import check, write
from tests.support.certificates import Authority
from tests.support.lying_provider import CLIENT, lying_provider

TLS, PROVIDER = "TLS of the dashboard", "log-in at the provider"
PAGE = {"dashboard_url": "https://domo.example.org"}


def test_a_certificate_of_the_page(tmp_path: Path) -> None:
    ca = Authority(tmp_path, "ca", (-1, 100))
    good, short = (
        ca.sign("good", "domo.example.org"),
        ca.sign("short", "domo.example.org", days=(-2, -1)),
    )
    other = ca.sign("other", "elsewhere.example.org")

    def table(cert: Path, key: Path) -> str:
        return f'[server.dashboard_tls]\ncert = "{cert}"\nkey = "{key}"\n'

    outcome = check(write(tmp_path, table(good.cert, good.key), **PAGE))
    assert (outcome.code, TLS in outcome.of("ok")) == (0, True)
    mend = "have one made for that name"
    check(write(tmp_path, table(other.cert, other.key), **PAGE)).blames(
        TLS, "is for elsewhere", mend
    )
    expired = check(write(tmp_path, table(short.cert, short.key), **PAGE))
    expired.blames(TLS, "expired on", "without a restart")
    mixed = check(write(tmp_path, table(good.cert, other.key), **PAGE))
    mixed.blames(TLS, "does not belong to the certificate", "made together")


def test_what_goes_in_clear_is_a_warning(tmp_path: Path) -> None:
    for outcome, words in (
        (
            check(write(tmp_path, dashboard="0.0.0.0:0")),
            "reachable from other machines without TLS",
        ),
        (check(write(tmp_path, **PAGE)), "no proxy is named that speaks TLS"),
    ):
        (found,) = [f for f in outcome.found if f["check"] == TLS]
        assert found["state"] == "warning"
        assert words in found["text"]
    named = check(write(tmp_path, 'trusted_proxies = ["127.0.0.1"]', **PAGE))
    assert TLS in named.of("ok")


def test_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lying_provider() as provider:
        table = (
            f'[server.oidc]\nissuer = "{provider.issuer}"\nclient_id = "{CLIENT}"\n'
            'people = {"anna@example.org" = "admin"}\n'
        )
        outcome = check(write(tmp_path, table, **PAGE))
        (found,) = [f for f in outcome.found if f["check"] == PROVIDER]
        assert found["state"] == "ok"
        assert "https://domo.example.org/login/oidc/callback" in found["text"]
        provider.document = {"issuer": "https://evil.example/\nerror: all is lost"}
        check(write(tmp_path, table, **PAGE)).blames(PROVIDER, "names itself otherwise", "issuer")
        provider.document = {}
        provider.published = []
        check(write(tmp_path, table, **PAGE)).blames(PROVIDER, "has no key", "RS256")
    check(write(tmp_path, table, **PAGE)).blames(PROVIDER, "cannot be reached", "issuer right")
    secret = table + 'client_secret_env = "OIDC_NONE"\n'
    check(write(tmp_path, secret, **PAGE)).blames(PROVIDER, "OIDC_NONE", "configuration.md")
