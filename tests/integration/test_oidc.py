"""Log-in through an OpenID Provider: a real one by its own forms, and one that lies."""

import asyncio
import contextlib
import gzip
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc.jwk import ECKey

from domo_server.dashboard.access.oidc import provider as of_provider
from domo_server.dashboard_config import OidcConfig
from domo_server.people.tries import MAX_WRONG
from tests.support.live import openid
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.killable import free_port
from tests.support.lying_provider import CLIENT, SECRET, Provider, lying_provider
from tests.support.played.clock import Clock

DOCUMENT = {"Accept": "text/html,application/xhtml+xml"}
REFUSED, LIMIT = 401, 429
NOBODY = (None, None)


class Scene:
    """A coordinator that takes a provider's word.

    Attributes:
        url: The page.
        server: The coordinator.
    """

    def __init__(self, server: Coordinator, address: str = "127.0.0.1"):
        self.server, self.url, self.address = server, server.url, address
        self.refused_before = self._refused()

    def browser(self, **cookies: str) -> httpx.Client:
        """One at the scene's address; a proxy says so where it is not this machine's."""
        forwarded = {} if self.address == "127.0.0.1" else {"X-Forwarded-For": self.address}
        return httpx.Client(
            base_url=self.url, headers={**DOCUMENT, **forwarded}, timeout=30, cookies=cookies
        )

    def begin(self, browser: httpx.Client, at: str = "") -> str:
        """Press the button; where the browser is sent."""
        answer = browser.get("/login/oidc", params={"at": at})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def refusals(self) -> int:
        """How many log-ins were refused since the scene began."""
        return self._refused() - self.refused_before

    def _get(self, path: str) -> httpx.Response:
        """As the operator of this machine: where a proxy is known of, nobody else reads."""
        headers = {"Authorization": f"Bearer {self.server.token}"}
        answer = httpx.get(f"{self.url}{path}", headers=headers)
        assert answer.status_code == 200, answer.text
        return answer

    def _refused(self) -> int:
        text = self._get("/metrics").text
        name = 'domo_refused_logins_total{why="wrong"}'
        return next(int(float(x.split()[-1])) for x in text.splitlines() if x.startswith(name))

    def said(self, kind: str = "refused-login") -> list[str]:
        """Events of people at the scene's address."""
        events = self._get("/api/v1/events?limit=1000").json()
        found = [e["text"] for e in events if e["kind"] == kind]
        return [text for text in found if re.search(rf"{re.escape(self.address)}\b", text)]

    def who(self, browser: httpx.Client) -> tuple[str | None, str | None]:
        found = browser.get("/api/v1/session").json()
        return found["name"], found["role"]


@contextlib.contextmanager
def scene(
    folder: Path, port: int, issuer: str, client: str, secret: Path, **oidc: Any
) -> Iterator[Scene]:
    page = f"http://127.0.0.1:{port}"
    table = {"issuer": issuer, "client_id": client, "client_secret_file": secret, **oidc}
    with coordinator(
        folder,
        dashboard=f"127.0.0.1:{port}",
        dashboard_url=page,
        oidc=table,
        trusted_proxies=["127.0.0.1"],
    ) as server:
        yield Scene(server)


def secret_file(folder: Path, text: str) -> Path:
    path = folder / "client-secret"
    path.write_text(f"{text}\n")
    return path


# a real provider


@openid.needs_provider
def test_people_of_a_real_provider_log_in_by_its_own_form(tmp_path: Path) -> None:
    port = free_port()
    back = f"http://127.0.0.1:{port}/login/oidc/callback"
    secret = secret_file(tmp_path, openid.SECRET)
    oidc = {
        "scopes": ["openid", "email", "groups"],
        "role_claim": "groups",
        "roles": {"admins": "admin"},
    }
    with (
        openid.canaille(back) as issuer,
        scene(tmp_path, port, issuer, openid.CLIENT, secret, **oidc) as at,
    ):
        with at.browser() as anna:
            anna.follow_redirects = True
            assert at.who(anna) == NOBODY
            form = anna.get("/login").text
            (button,) = re.findall(
                r'<a class="button primary" id="provider" href="([^"]+)" >', form
            )
            page = openid.log_in_at_provider(anna, anna.get(f"{button}?at=%23/runs"), "anna")
            assert str(page.url) == f"{at.url}/#/runs"
            assert at.who(anna) == ("anna", "admin")
            anna.headers["Origin"] = at.url
            run = {"task": "digits", "num_rounds": 1, "num_silos": 1}
            assert anna.post("/api/v1/runs", json=run).status_code == 201
            assert anna.post("/logout").url.path == "/"
            assert at.who(anna) == NOBODY
        with at.browser() as otto:  # whom the provider knows, and nobody here
            otto.follow_redirects = True
            page = openid.log_in_at_provider(otto, otto.get("/login/oidc"), "otto")
            assert page.status_code == REFUSED
            assert "no role here for otto" in page.text
            assert "Bearer" not in page.text
            assert at.who(otto) == NOBODY
        assert at.refusals() == 1
        assert any("anna (admin) logged in" in text for text in at.said("logged-in"))


# one that lies


@pytest.fixture(scope="module")
def liar() -> Iterator[Provider]:
    with lying_provider() as provider:
        yield provider


@pytest.fixture(autouse=True)
def honest(liar: Provider) -> None:
    """Each test begins with a provider that does not lie."""
    liar.__init__(liar.issuer, liar.first_key)  # type: ignore[misc]


ROLES = {"role_claim": "groups", "roles": {"domo-admins": "admin", "readers": "viewer"}}


@pytest.fixture(scope="module")
def shared(liar: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("shared")
    secret = secret_file(folder, SECRET)
    with (
        pytest.MonkeyPatch.context() as patched,
        scene(folder, free_port(), liar.issuer, CLIENT, secret, **ROLES) as it,
    ):
        patched.setattr("domo_server.events.repeated.MOST_SOURCES", 1000)  # each has its address
        yield it


ADDRESSES = (f"203.0.113.{number}" for number in itertools.count(1))


@pytest.fixture
def at(shared: Scene) -> Scene:
    """One coordinator for all, and for each test people at an address of their own."""
    return Scene(shared.server, next(ADDRESSES))


@pytest.fixture
def own(tmp_path: Path, liar: Provider) -> Iterator[Scene]:
    """A coordinator that has not yet asked the provider for anything."""
    secret = secret_file(tmp_path, SECRET)
    with scene(tmp_path, free_port(), liar.issuer, CLIENT, secret, **ROLES) as it:
        yield it


def back_at(at: Scene, liar: Provider, browser: httpx.Client, **changed: str) -> httpx.Response:
    """The whole way, with something else in the answer of the provider."""
    back = {**liar.code_for(at.begin(browser)), **changed}
    return browser.get("/login/oidc/callback", params=back)


def test_the_good_way(at: Scene, liar: Provider) -> None:
    with at.browser() as browser:
        url = at.begin(browser, "#/runs/1-x")
        asked = dict(parse_qsl(urlsplit(url).query))
        assert url.startswith(f"{liar.issuer}/authorize?")
        assert asked["redirect_uri"] == f"{at.url}/login/oidc/callback"
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert asked["scope"] == "openid email profile"
        assert all(len(asked[x]) == 43 for x in ("state", "nonce", "code_challenge"))
        answer = browser.get("/login/oidc/callback", params=liar.code_for(url))
        assert (answer.status_code, answer.headers["location"]) == (303, "/#/runs/1-x")
        assert at.who(browser) == ("anna@example.org", "admin")
        assert at.refusals() == 0
        assert at.said("logged-in") == [f"anna@example.org (admin) logged in, from {at.address}"]
        cookies = answer.headers.get_list("set-cookie")
        assert len(cookies) == 2
        session, gone = cookies
        assert "SameSite=strict" in session
        assert "Max-Age=0" in gone


def test_a_login_makes_a_new_session_and_ends_the_one_before(at: Scene, liar: Provider) -> None:
    with at.browser() as browser:
        assert back_at(at, liar, browser).status_code == 303
        (before,) = [c for c in browser.cookies.jar if c.name.startswith("domo")]
        liar.claims = {"sub": "person-2", "groups": "readers"}
        assert back_at(at, liar, browser).status_code == 303
        assert at.who(browser) == ("person-2", "viewer")
        assert browser.cookies[before.name] != before.value
        assert before.value is not None
        with at.browser(**{before.name: before.value}) as thief:
            assert at.who(thief) == NOBODY


def test_a_session_that_somebody_else_laid_there_is_not_taken_over(
    at: Scene, liar: Provider
) -> None:
    with at.browser() as browser:
        name = httpx.get(f"{at.url}/login/oidc").headers["set-cookie"].partition("_begun=")[0]
        browser.cookies.set(name, "of-the-attacker", domain="127.0.0.1")
        assert back_at(at, liar, browser).status_code == 303
        assert "of-the-attacker" not in str(browser.cookies.jar)
    with at.browser(**{name: "of-the-attacker"}) as attacker:
        assert at.who(attacker) == NOBODY


NOW = int(time.time())
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "nonce of another": ({"nonce": "another"}, "another log-in (nonce)"),
    "no nonce": ({"nonce": None}, "another log-in (nonce)"),
    "list of nonces": ({"nonce": ["another"]}, "another log-in (nonce)"),
    "audience": ({"aud": "another-client"}, "another audience"),
    "audience, though authorised": ({"aud": "another-client", "azp": CLIENT}, "another audience"),
    "audiences, though authorised": ({"aud": ["a", "b"], "azp": CLIENT}, "another audience"),
    "no audience": ({"aud": None}, "not good"),
    "audiences, none authorised": ({"aud": [CLIENT, "another"]}, "another audience"),
    "authorised is another": ({"aud": [CLIENT, "another"], "azp": "another"}, "another audience"),
    "azp of another": ({"azp": "another"}, "another audience"),
    "expired": ({"exp": NOW - 3600, "iat": NOW - 7200}, "has expired"),
    "no end": ({"exp": None}, "not good"),
    "end is no number": ({"exp": "tomorrow"}, "not good"),
    "from the future": ({"iat": NOW + 3600, "exp": NOW + 7200}, "both clocks"),
    "from before": ({"iat": NOW - 3600}, "both clocks"),
    "not before": ({"nbf": NOW + 3600}, "both clocks"),
    "issuer": ({"iss": "https://evil.example"}, "another provider"),
    "no issuer": ({"iss": None}, "not good"),
    "access token of another": ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "at_hash"),
    "nobody": ({"sub": None}, "not good"),
    "nobody at length": ({"sub": "x" * 300}, "not good"),
    "empty subject": ({"sub": ""}, "not good"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_id_token_that_lies_is_refused_and_counted(at: Scene, liar: Provider, lie: str) -> None:
    liar.changed, words = LIES[lie]
    with at.browser() as browser:
        answer = back_at(at, liar, browser)
        assert answer.status_code == REFUSED
        assert words in answer.text
        assert at.who(browser) == NOBODY
    assert at.refusals() == 1
    (said,) = at.said()
    assert said.startswith(f"a log-in from {at.address} was refused: ")
    assert words in said


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("unsigned", "not signed"),
        ("with_public_key", "not signed"),
        ("with_another_key", "none of the provider"),
        ("with_own_key_in_it", "none of the provider"),
    ],
)
def test_a_signature_that_lies_is_refused_and_counted(
    at: Scene, liar: Provider, how: str, words: str
) -> None:
    liar.signed = getattr(liar, how)
    with at.browser() as browser:
        answer = back_at(at, liar, browser)
        assert (answer.status_code, words in answer.text) == (REFUSED, True)
        assert at.who(browser) == NOBODY
    assert at.refusals() == 1


@pytest.mark.parametrize(
    "token", ["", "a.b", "a.b.c", "....", "\u00e9.x.y", "eyJhbGciOiJSUzI1NiJ9..", "x" * 100_000, 7]
)
def test_a_token_that_is_none(at: Scene, liar: Provider, token: Any) -> None:
    liar.signed = lambda claims: token
    with at.browser() as browser:
        assert back_at(at, liar, browser).status_code == REFUSED
    assert at.refusals() == 1


def test_state_code_and_pkce(at: Scene, liar: Provider) -> None:
    with at.browser() as mine, at.browser() as other:
        # an answer that is sent twice
        back = liar.code_for(at.begin(mine))
        begun = dict(mine.cookies)
        assert mine.get("/login/oidc/callback", params=back).status_code == 303
        with at.browser(**begun) as copy:
            again = copy.get("/login/oidc/callback", params=back)
        assert (again.status_code, "was used already" in again.text) == (REFUSED, True)

        # a code that was used, in a log-in of one's own
        answer = back_at(at, liar, other, code=back["code"])
        assert (answer.status_code, "does not take the code" in answer.text.lower()) == (
            REFUSED,
            True,
        )

        # an answer for the browser of somebody else, and for one that began nothing
        theirs = liar.code_for(at.begin(mine))
        at.begin(other)
        answer = other.get("/login/oidc/callback", params=theirs)
        assert (answer.status_code, "another browser" in answer.text.lower()) == (REFUSED, True)
        with at.browser() as fresh:
            answer = fresh.get("/login/oidc/callback", params=theirs)
            assert (answer.status_code, "no log-in is under way" in answer.text.lower()) == (
                REFUSED,
                True,
            )

        # somebody else's code with one's own state: the provider wants that one's verifier
        stolen = liar.code_for(at.begin(mine))["code"]
        answer = back_at(at, liar, other, code=stolen)
        assert (answer.status_code, "does not take the code" in answer.text.lower()) == (
            REFUSED,
            True,
        )
        assert at.who(other) == NOBODY
    assert at.refusals() == 5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"iss": "https://evil.example"}, "is of another provider"),
        ({"code": ""}, "no reason that is known here"),
        ({"code": "", "error": "access_denied"}, "given up, or is not allowed"),
        ({"error": "<b>\x1b[2J\nforged line"}, "no reason that is known here"),
        ({"state": ""}, "another browser"),
        ({"state": "\u00e9"}, "another browser"),
    ],
)
def test_answers_that_are_none(
    at: Scene, liar: Provider, changed: dict[str, str], words: str
) -> None:
    with at.browser() as browser:
        answer = back_at(at, liar, browser, **changed)
        assert (answer.status_code, words in answer.text) == (REFUSED, True)
        assert "forged" not in answer.text


def test_who_names_itself_in_its_answers_has_to(own: Scene, liar: Provider) -> None:
    liar.document = {"authorization_response_iss_parameter_supported": True}
    with own.browser() as browser:
        answer = back_at(own, liar, browser)
        assert (answer.status_code, "of which provider" in answer.text) == (REFUSED, True)
        assert back_at(own, liar, browser, iss=liar.issuer).status_code == 303


def test_no_words_of_a_stranger_get_through(own: Scene, liar: Provider) -> None:
    with own.browser() as browser:
        back_at(own, liar, browser, error="<b>\x1b[2J\nforged line")
    (said,) = own.said()
    assert said.isprintable()
    assert "forged" not in said


def test_nobody_without_a_role_and_no_words_of_the_provider(own: Scene, liar: Provider) -> None:
    liar.claims = {"sub": "mallory\n\x1b]52;c;AAAA\x07<script>", "groups": ["x", "y"]}
    with own.browser() as browser:
        answer = back_at(own, liar, browser)
        assert answer.status_code == REFUSED
        assert "no role here for" in answer.text
        assert "ask there" in answer.text
        assert "<script>" not in answer.text.partition('id="login-error"')[2].partition("</p>")[0]
    (said,) = own.said()
    assert said.isprintable()


def test_more_about_somebody_is_asked_for_and_has_to_be_of_the_same(
    at: Scene, liar: Provider
) -> None:
    liar.claims = {"sub": "person-1"}
    liar.userinfo = {"sub": "person-1", "groups": ["readers"]}
    with at.browser() as browser:
        assert back_at(at, liar, browser).status_code == 303
        assert at.who(browser) == ("person-1", "viewer")
        liar.userinfo = {"sub": "person-2", "groups": ["domo-admins"]}
        assert back_at(at, liar, browser).status_code == REFUSED


def test_after_ten_wrong_ones_in_a_minute_none_is_looked_at(at: Scene, liar: Provider) -> None:
    liar.changed = {"nonce": "another"}
    with at.browser() as browser:
        for _ in range(MAX_WRONG):
            assert back_at(at, liar, browser).status_code == REFUSED
        asked = len(liar.asked)
        answer = back_at(at, liar, browser)
        assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (LIMIT, True)
        assert len(liar.asked) == asked, "the provider is not asked"
        at.begin(browser)
        program = browser.get("/login/oidc/callback", headers={"Accept": "*/*"})
        assert (program.status_code, program.json()["error"]["code"]) == (LIMIT, "too_many_tries")


def test_new_keys_are_found(own: Scene, liar: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_provider, "AGAIN_S", 0.0)
    with own.browser() as browser:
        assert back_at(own, liar, browser).status_code == 303
        old = liar.key
        liar.key = ECKey.generate_key("P-256", {"kid": "two", "use": "sig"})
        liar.published = [*liar.published, liar.key.as_dict(private=False)]
        liar.header = {"alg": "ES256", "kid": "two"}
        assert back_at(own, liar, browser).status_code == 303
        asked = liar.asked.count("/keys")
        assert back_at(own, liar, browser).status_code == 303
        assert liar.asked.count("/keys") == asked
        liar.published = [liar.key.as_dict(private=False)]
        liar.key, liar.header = old, {"alg": "RS256", "kid": "one"}
        liar.header["kid"] = "three"
        assert back_at(own, liar, browser).status_code == REFUSED


def test_a_new_key_is_asked_for_once_however_many_wait_for_it(liar: Provider) -> None:
    settings = OidcConfig(issuer=liar.issuer, client_id=CLIENT, people={"sub:person-1": "viewer"})
    ticks = Clock(1000.0)

    async def main() -> None:
        provider = of_provider.Provider(settings, "http://127.0.0.1/", ticks=ticks)

        async def asked(num: int, *, again: bool) -> int:
            liar.asked.clear()
            await asyncio.gather(*(provider.keys(again=again) for _ in range(num)))
            return liar.asked.count("/keys")

        try:
            assert await asked(20, again=False) == 1
            assert await asked(20, again=True) == 0, "they were asked for a moment ago"
            ticks.now += of_provider.AGAIN_S + 1
            assert await asked(20, again=False) == 0
            assert await asked(20, again=True) == 1
            ticks.now += of_provider.KNOWN_S + 1
            assert await asked(20, again=False) == 1
        finally:
            await provider.close()

    asyncio.run(main())


def test_a_page_elsewhere_keeps_nobody_out_by_sending_browsers_here(
    at: Scene, liar: Provider
) -> None:
    with at.browser() as browser:
        for _ in range(MAX_WRONG + 1):
            answer = browser.get("/login/oidc/callback", params={"state": "x", "code": "y"})
            assert (answer.status_code, "no log-in is under way" in answer.text.lower()) == (
                REFUSED,
                True,
            )
        assert at.refusals() == MAX_WRONG + 1, "each is counted"
        assert back_at(at, liar, browser).status_code == 303


# a provider that is ill


def _elsewhere(it: BaseHTTPRequestHandler) -> None:
    it.send_response(302)
    it.send_header("location", "http://127.0.0.1:9/token")
    it.send_header("content-length", "0")
    it.end_headers()


def _sends(content: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(it: BaseHTTPRequestHandler) -> None:
        it.send_response(200)
        for name, value in headers.items():
            it.send_header(name.replace("_", "-"), value)
        it.send_header("content-length", str(len(content)))
        it.end_headers()
        with contextlib.suppress(ConnectionError):
            it.wfile.write(content)

    return answer


@pytest.mark.parametrize(
    ("answer", "words", "status"),
    [
        (_elsewhere, "sends the coordinator elsewhere", 503),
        (_sends(b" " * 300_000), "more than 256 KiB", 503),
        (_sends(gzip.compress(b" " * 10_000_000), content_encoding="gzip"), "packs an answer", 503),
        (_sends(b"\x1b[2J<html>"), "does not take the code", 401),
        (_sends(b"[" * 100_000), "does not take the code", 401),
        (_sends(b'{"id_token": 7}'), "does not take the code", 401),
    ],
)
def test_answers_that_cannot_be_used(
    at: Scene,
    liar: Provider,
    answer: Callable[[BaseHTTPRequestHandler], None],
    words: str,
    status: int,
) -> None:
    liar.answers["/token"] = answer
    with at.browser() as browser:
        got = back_at(at, liar, browser)
        assert (got.status_code, words in got.text) == (status, True), got.text
    assert at.refusals() == 1


def test_a_provider_that_hangs_holds_nobody_else_up(
    own: Scene, liar: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domo_server.dashboard.access.oidc.fetch.ANSWER_S", 1.5)
    go_on = threading.Event()
    liar.answers["/.well-known/openid-configuration"] = lambda it: (go_on.wait(10), None)[1]
    with own.browser() as browser:
        found: list[httpx.Response] = []
        waiting = threading.Thread(target=lambda: found.append(browser.get("/login/oidc")))
        waiting.start()
        slowest = 0.0
        while waiting.is_alive():
            began = time.monotonic()
            own._get("/api/v1/status")
            slowest = max(slowest, time.monotonic() - began)
        waiting.join()
        assert slowest < 1.0
        (answer,) = found
        assert (answer.status_code, "does not answer in time" in answer.text) == (503, True)
        began = time.monotonic()
        assert browser.get("/login/oidc").status_code == 503  # and is not asked at once again
        assert time.monotonic() - began < 1.0
        assert liar.asked.count("/.well-known/openid-configuration") == 1
    go_on.set()


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"code_challenge_methods_supported": ["plain"]}, "does not do PKCE"),
        ({"issuer": "https://evil.example"}, "names itself otherwise"),
        ({"token_endpoint": "http://198.51.100.1/token"}, "is not https"),
    ],
)
def test_a_provider_that_is_not_what_it_is_taken_for(
    own: Scene, liar: Provider, document: dict[str, Any], words: str
) -> None:
    liar.document = document
    with own.browser() as browser:
        answer = browser.get("/login/oidc")
        assert (answer.status_code, words in answer.text) == (503, True)
        program = browser.get("/login/oidc", headers={"Accept": "*/*"})
        assert program.json()["error"]["code"] == "unavailable"
    assert words in own.said()[0]


# behind a proxy


def test_cookies_are_secure_behind_a_proxy_that_speaks_tls(tmp_path: Path, liar: Provider) -> None:
    secret = secret_file(tmp_path, SECRET)
    oidc = {
        "issuer": liar.issuer, "client_id": CLIENT, "client_secret_file": secret,
        "people": {"sub:person-1": "auditor"},
    }  # fmt: skip
    proxied = {
        **DOCUMENT, "Host": "domo.example.org", "X-Forwarded-Proto": "https",
        "X-Forwarded-For": "203.0.113.5",
    }  # fmt: skip
    with coordinator(
        tmp_path, dashboard_url="https://domo.example.org", trusted_proxies=["127.0.0.1"], oidc=oidc
    ) as server:
        begun = httpx.get(f"{server.url}/login/oidc", headers=proxied)
        cookie = begun.headers["set-cookie"]
        assert cookie.startswith("__Host-domo")
        assert {"Secure", "HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
        back = liar.code_for(begun.headers["location"])
        assert liar.seen[-1]["redirect_uri"] == "https://domo.example.org/login/oidc/callback"
        answer = httpx.get(
            f"{server.url}/login/oidc/callback",
            params=back,
            headers={**proxied, "Cookie": cookie.partition(";")[0]},
        )
        assert answer.status_code == 303, answer.text
        for given in answer.headers.get_list("set-cookie"):
            assert given.startswith("__Host-domo")
            assert {"Secure", "HttpOnly", "Path=/"} <= set(given.split("; "))
        session = answer.headers.get_list("set-cookie")[0].partition(";")[0]
        who = httpx.get(f"{server.url}/api/v1/session", headers={**proxied, "Cookie": session})
        assert (who.json()["name"], who.json()["role"]) == ("anna@example.org", "auditor")
        nobody = httpx.get(f"{server.url}/api/v1/session", headers=proxied)
        assert nobody.json()["role"] is None
