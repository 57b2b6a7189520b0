"""Log-in through a provider, part by part: what is begun, claims and roles, documents, settings."""

from pathlib import Path
from typing import Any

import pytest

from domo.errors import AccessError, ConfigError, TransportError
from domo_server.config import load_config
from domo_server.dashboard.access.oidc import begun as of_begun
from domo_server.dashboard.access.oidc import redirect_uri
from domo_server.dashboard.access.oidc.begun import BEGUN_S, BegunLogins, place_of
from domo_server.dashboard.access.oidc.claims import is_missing, person_of
from domo_server.dashboard.access.oidc.doors import doors_of, secret_of
from domo_server.dashboard_config import OidcConfig, is_safe_url

ISSUER = "https://sso.example.org/realms/study"


def config(**changed: Any) -> OidcConfig:
    told = {
        "issuer": ISSUER,
        "client_id": "domo",
        "role_claim": "groups",
        "roles": {"readers": "viewer", "checkers": "auditor", "admins": "admin"},
        **changed,
    }
    return OidcConfig.model_validate({k: v for k, v in told.items() if v is not None})


# what is begun


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_login_is_opened_once_in_its_browser_and_in_time() -> None:
    clock = Clock()
    logins = BegunLogins(clock)
    (one, cookie), (two, other) = logins.begin("#/runs"), logins.begin("")
    assert len({one.state, one.nonce, one.verifier, two.state, two.nonce, two.verifier}) == 6
    assert one.nonce not in cookie
    assert one.verifier not in cookie
    with pytest.raises(AccessError, match="another browser"):
        logins.open(other, one.state)
    assert logins.open(cookie, one.state) == one
    with pytest.raises(AccessError, match="used already"):
        logins.open(cookie, one.state)
    clock.now += BEGUN_S + 1
    with pytest.raises(AccessError, match="no log-in is under way"):
        logins.open(other, two.state)
    for odd in ("", "x", "\u00e9", "x" * 10_000, cookie[:-2]):
        with pytest.raises(AccessError, match="no log-in is under way"):
            logins.open(odd, one.state)
    with pytest.raises(AccessError, match="no log-in is under way"):
        BegunLogins(clock).open(cookie, one.state)  # of another coordinator, or before a restart


def test_a_flood_of_logins_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_begun, "MAX_USED", 10)
    logins = BegunLogins()
    honest, cookie = logins.begin("")
    for _ in range(50):
        begun, sealed = logins.begin("#/" + "x" * 400)
        assert len(sealed) < of_begun.MAX_COOKIE_BYTES
        logins.open(sealed, begun.state)
    assert len(logins._used) == 10
    assert logins.open(cookie, honest.state) == honest


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("#/runs/1-digits?x=rounds", "#/runs/1-digits?x=rounds"),
        ("#/", "#/"),
        ("", ""),
        ("//evil.example", ""),
        ("https://evil.example/#/", ""),
        ("#x", ""),
        ("#/\r\nSet-Cookie: a=b", ""),
        ("#/\u202e", ""),
        ("#/" + "x" * 500, ""),
    ],
)
def test_it_comes_back_to_the_page_only(given: str, place: str) -> None:
    assert place_of(given) == place


# who it is


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        ("readers", "viewer"),
        (["readers"], "viewer"),
        (["readers", "admins", "checkers"], "admin"),
        (["checkers", "x"], "auditor"),
        ([["admins"], {"admins": 1}, 7, None, "readers"], "viewer"),
        (["Admins"], None),
        ({"admins": True}, None),
        ([], None),
        (None, None),
        ("", None),
    ],
)
def test_roles_by_claim(groups: Any, role: str | None) -> None:
    claims = {"sub": "s-1", "groups": groups}
    if role is not None:
        assert person_of(config(), claims).role == role
        return
    with pytest.raises(AccessError, match=r"no role here for s-1\. .*ask there"):
        person_of(config(), claims)


def test_a_claim_within_claims_and_one_with_dots_in_its_name() -> None:
    nested = {"sub": "s", "realm_access": {"roles": ["admins"]}}
    assert person_of(config(role_claim="realm_access.roles"), nested).role == "admin"
    named = {"sub": "s", "https://example.org/roles": ["checkers"]}
    assert person_of(config(role_claim="https://example.org/roles"), named).role == "auditor"
    with pytest.raises(AccessError):
        person_of(config(role_claim="realm_access.roles"), {"sub": "s", "realm_access": "admins"})


TABLE = {"Anna@example.org": "admin", "sub:0815": "viewer", "sub:x@y": "auditor"}


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"sub": "1", "email": "anna@example.org", "email_verified": True}, "admin"),
        ({"sub": "1", "email": "ANNA@EXAMPLE.ORG", "email_verified": True}, "admin"),
        ({"sub": "1", "email": "anna@example.org", "email_verified": False}, None),
        ({"sub": "1", "email": "anna@example.org", "email_verified": "true"}, None),
        ({"sub": "1", "email": "anna@example.org"}, None),
        ({"sub": "anna@example.org"}, None),  # anybody may call himself so
        ({"sub": "Anna@example.org"}, None),
        ({"sub": "0815"}, "viewer"),
        ({"sub": "sub:0815"}, None),
        ({"sub": "1", "email": "sub:0815", "email_verified": True}, None),
        ({"sub": "1", "email": "sub:x@y", "email_verified": True}, None),
        ({"sub": "x@y"}, "auditor"),
        ({"sub": "1", "email": "\u0430nna@example.org", "email_verified": True}, None),
        ({"sub": "1", "email": ["anna@example.org"], "email_verified": True}, None),
    ],
)
def test_roles_by_a_table_of_people(claims: dict[str, Any], role: str | None) -> None:
    table = config(role_claim=None, roles=None, people=TABLE)
    if role is None:
        with pytest.raises(AccessError, match="there is no role here for"):
            person_of(table, claims)
    else:
        assert person_of(table, claims).role == role


def test_names_are_one_short_printable_line() -> None:
    claims = {"sub": "a\nb\x1b[2J\u202e" + "x" * 300, "groups": "admins"}
    name = person_of(config(), claims).name
    assert name.isprintable()
    assert len(name) == 100
    named = {"sub": "s", "email": "anna@example.org", "email_verified": True, "groups": "admins"}
    assert person_of(config(), named).name == "anna@example.org"
    unlooked = {**named, "email_verified": False}
    assert person_of(config(), unlooked).name == "s"
    for name in ("the admin", "the\nadmin", "anybody"):  # who did something is not left open
        assert person_of(config(), {**unlooked, "sub": name}).name.startswith("sub:")


def test_more_is_asked_for_where_a_role_may_depend_on_it() -> None:
    assert is_missing(config(), {"sub": "s"})
    assert not is_missing(config(), {"sub": "s", "groups": []})
    by_email = config(role_claim=None, roles=None, people={"a@example.org": "viewer"})
    assert is_missing(by_email, {"sub": "s"})
    assert not is_missing(by_email, {"sub": "s", "email": "b@example.org"})
    by_subject = config(role_claim=None, roles=None, people={"sub:s": "viewer"})
    assert not is_missing(by_subject, {"sub": "s"})


# what a provider says of itself

DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
}


def test_a_document_that_is_good() -> None:
    doors = doors_of(config(), DOCUMENT)
    assert (doors.authorize, doors.token, doors.keys) == tuple(
        f"{ISSUER}/{x}" for x in ("auth", "token", "keys")
    )
    assert (doors.userinfo, doors.by_post, doors.says_issuer) == ("", False, False)
    posts = {**DOCUMENT, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert doors_of(config(), posts).by_post


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"issuer": f"{ISSUER}/"}, "names itself otherwise"),
        ({"issuer": "https://evil.example"}, "names itself otherwise"),
        ({"issuer": None}, "names itself otherwise"),
        (
            {"token_endpoint": "http://sso.example.org/token"},
            "token_endpoint is missing, or is not",
        ),
        ({"token_endpoint": "http://127.0.0.1/token"}, "token_endpoint is not https"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri is missing, or is not https"),
        ({"jwks_uri": ["https://x"]}, "jwks_uri is missing"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint is missing"),
        ({"userinfo_endpoint": "ftp://x/"}, "userinfo_endpoint is missing"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not do PKCE"),
        ({"id_token_signing_alg_values_supported": ["HS256", "none"]}, "signs ID tokens in no way"),
    ],
)
def test_a_document_that_is_not(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(TransportError, match=words) as caught:
        doors_of(config(), {**DOCUMENT, **changed})
    assert "evil" not in str(caught.value)


# settings


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"issuer": "http://sso.example.org"}, "must be an https URL"),
        ({"issuer": "https://sso.example.org?x=1"}, "must be an https URL"),
        ({"issuer": "https://u:p@sso.example.org"}, "must be an https URL"),
        ({"issuer": "https://localhost.evil\\@x"}, "must be an https URL"),
        ({"issuer": "sso.example.org"}, "must be an https URL"),
        ({"scopes": ["email"]}, '"openid" among them'),
        ({"scopes": ["openid", "a b"]}, "must be words"),
        ({"roles": {}}, "give both of them"),
        ({"role_claim": None}, "give both of them"),
        ({"role_claim": None, "roles": None}, "nobody could log in"),
        ({"people": {"anna": "admin"}}, "must be an e-mail address, or sub:SUBJECT"),
        ({"roles": {"x": "root"}}, "viewer"),
        ({"client_secret_env": "A", "client_secret_file": "b"}, "give one of them"),
    ],
)
def test_settings_that_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config(**changed)


@pytest.mark.parametrize("issuer", ["http://127.0.0.1:99", "http://localhost", "http://[::1]:1/x"])
def test_without_tls_on_this_machine_only(issuer: str) -> None:
    assert config(issuer=issuer).issuer == issuer
    assert not is_safe_url(issuer.replace("127.0.0.1", "127.0.0.1.evil").replace("[::1]", "[::2]")
                           .replace("localhost", "localhost.evil"))  # fmt: skip


def test_the_page_has_to_have_a_name_that_it_comes_back_to(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    oidc = f'[server.oidc]\nissuer = "{ISSUER}"\nclient_id = "domo"\npeople = {{"a@b" = "admin"}}\n'
    for page in ("", 'dashboard_url = "http://domo.example.org"\n'):
        path.write_text(f"[server]\n{page}{oidc}")
        with pytest.raises(ConfigError, match="needs dashboard_url"):
            load_config(path, {})
    path.write_text(f'[server]\ndashboard_url = "https://domo.example.org/"\n{oidc}')
    settings, _ = load_config(path, {})
    assert settings.oidc is not None
    assert redirect_uri(settings.dashboard_url or "") == (
        "https://domo.example.org/login/oidc/callback"
    )


def test_the_clients_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secret_of(config()) is None
    monkeypatch.setenv("OIDC_SECRET", " s3cret ")
    assert secret_of(config(client_secret_env="OIDC_SECRET")) == "s3cret"
    file = tmp_path / "secret"
    file.write_text("from a file\n")
    assert secret_of(config(client_secret_file=file)) == "from a file"
    monkeypatch.setenv("OIDC_SECRET", "two\nlines")
    for wrong, words in (
        ({"client_secret_env": "OIDC_SECRET"}, "one line of ASCII"),
        ({"client_secret_env": "OIDC_NONE"}, "not set"),
        ({"client_secret_file": tmp_path / "none"}, "No such file"),
    ):
        with pytest.raises(ConfigError, match=words):
            secret_of(config(**wrong))
