"""Every route by every role, shown in both ways: one table, made from the OpenAPI document."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from domo_server.dashboard import app as app_module
from domo_server.dashboard import create_app
from domo_server.dashboard.access.gate import CHANGING
from domo_server.dashboard.access.peer import reading_open_to
from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.event_log import EventLog
from domo_server.events.notifier import Notifier
from domo_server.people.people import People
from domo_server.people.person import ROLES
from domo_server.people.tries import MAX_WRONG
from domo_server.store.database import open_database
from domo_server.store.store import Store, now_text
from tests.support.played.made_up import Federation
from tests.support.played.people import TOKEN, made_people, session_of, token_of

HOST = "127.0.0.1:8080"
OWN = {"Origin": f"http://{HOST}"}
PEOPLE = made_people()
WHO = ("nobody", *ROLES, "expired", "revoked")
BODIES: dict[str, Any] = {
    "POST /api/v1/runs": {"method": "DOMO"},
    "PATCH /api/v1/runs/{run_id}": {},
}
FORMS: dict[str, Any] = {"POST /login": {"token": TOKEN}}
OF_ITS_OWN = {"GET /api/v1/session": 401}
"""Routes that are open and look at credentials all the same: what they say to wrong ones."""


async def metrics() -> bytes:
    return b"domo_silo_up 1.0\n"


def made_app(federation: Federation, people: People = PEOPLE, **options: Any) -> FastAPI:
    """The page of a coordinator where reading needs a role."""
    return create_app(federation, federation, people, metrics=metrics, **options)


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of all that the document has."""
    paths = made_app(Federation()).openapi()["paths"].items()
    return [(m.upper(), path, o) for path, found in paths for m, o in found.items()]


ROUTES = {f"{method} {path}": operation for method, path, operation in operations()}
CHANGES = [name for name in ROUTES if name.split()[0] in CHANGING]


def shown(who: str, how: str) -> dict[str, str]:
    """The headers of somebody who shows a role by a token, or by a cookie."""
    if who == "nobody":
        return {}
    role = who if who in ROLES else "admin"
    ends_in_s = -1 if who == "expired" else 3600
    name = f"{who}-by-{how}"
    token = token_of(PEOPLE, name, role, ends_in_s)  # type: ignore[arg-type]
    if how == "bearer":
        if who == "revoked":
            PEOPLE._rows.revoke_token(name, now_text())
        return {"Authorization": f"Bearer {token}"}
    cookie = session_of(PEOPLE, name, role)  # type: ignore[arg-type]
    if who in ("expired", "revoked"):
        PEOPLE._rows.end_sessions_of(name)
    return {"Cookie": f"domo={cookie}", **OWN}


def ready(federation: Federation, name: str, folder: Path) -> None:
    """What a route acts on is there, in the state that it needs."""
    federation.__init__()  # type: ignore[misc]
    for what, state in (("pause", "OPEN"), ("stop", "OPEN"), ("resume", "PAUSED")):
        if name.endswith(f"/{what}"):
            federation._change_run("1-fedavg", state)  # type: ignore[arg-type]
    if name.endswith(("/undrop", "/readmit")):
        federation._change_silo("site-a", "on holiday")
    federation.model_path = folder / "model"
    federation.model_path.write_bytes(b"x")


def ask(
    app: FastAPI, name: str, headers: dict[str, str], address: str = "127.0.0.1", **options: Any
) -> httpx.Response:
    method, path = name.split()
    path = path.replace("{run_id}", "1-fedavg").replace("{silo_id}", "site-a")
    app.state.streams.close()  # else one of them never ends

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(method, path, headers=headers, **options)

    return asyncio.run(go())


def asked(app: FastAPI, name: str, headers: dict[str, str]) -> int:
    body = {"json": BODIES[name]} if name in BODIES else {"data": FORMS.get(name)}
    return ask(app, name, headers, **body).status_code


def allowed(name: str) -> int:
    """What a route answers to who may: the one good status that the document has."""
    (status,) = [int(s) for s in ROUTES[name]["responses"] if s < "400"]
    return status


def due(name: str, who: str, how: str) -> int:
    """What a route must answer: by its role, and nothing else."""
    needed = ROUTES[name]["x-role"]
    if needed == "nobody":
        wrong = how == "bearer" and who in ("expired", "revoked")
        return OF_ITS_OWN.get(name, allowed(name)) if wrong else allowed(name)
    if who not in ROLES:
        return 401
    return allowed(name) if ROLES.index(who) >= ROLES.index(needed) else 403


@pytest.mark.parametrize("name", ROUTES)
def test_each_route_by_each_role(name: str, tmp_path: Path) -> None:
    assert ROUTES[name]["x-role"] in ("nobody", *ROLES), "each route says what it needs"
    federation = Federation()
    found, wanted = {}, {}
    for how in ("bearer", "cookie"):
        app = made_app(federation)
        for who in WHO:
            ready(federation, name, tmp_path)
            headers = shown(who, how)
            if name == "POST /logout":
                headers |= OWN
            before = repr((federation.run_list, federation.silo_list, federation.submitted))
            wanted[who, how] = due(name, who, how)
            found[who, how] = asked(app, name, headers)
            after = repr((federation.run_list, federation.silo_list, federation.submitted))
            if wanted[who, how] >= 400:
                assert after == before, f"{who} has changed something"
    assert found == wanted


def test_who_needs_what() -> None:
    """A change of the table is a decision, and so is one of this test."""
    needs = {name: operation["x-role"] for name, operation in ROUTES.items()}
    assert {name for name, role in needs.items() if role == "nobody"} == {
        "GET /login",
        "POST /login",
        "POST /logout",
        "GET /api/v1/session",
    }
    assert [n for n, role in needs.items() if role == "auditor"] == [
        "GET /api/v1/runs/{run_id}/model"
    ]
    others = {n: role for n, role in needs.items() if role in ("viewer", "admin")}
    assert all((role == "admin") == (n.split()[0] in CHANGING) for n, role in others.items())
    assert len(others) >= 25
    assert all("security" in ROUTES[name] for name in others)


@pytest.mark.parametrize("path", ["/api/v1/openapi.json"])
def test_what_is_not_in_the_document_and_needs_a_role(path: str) -> None:
    app = made_app(Federation())
    assert ask(app, f"GET {path}", {}).status_code == 401
    assert ask(app, f"GET {path}", shown("viewer", "bearer")).status_code == 200


@pytest.mark.parametrize("path", ["/", "/login", "/static/app.js", "/api/v1/docs"])
def test_what_is_open_to_whoever_reaches_the_port(path: str) -> None:
    assert ask(made_app(Federation()), f"GET {path}", {}).status_code == 200


def test_a_route_without_a_role_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    real = app_module.login_routes

    def with_another(gate: Any, *_: Any) -> Any:
        router = real(gate)
        router.dependencies.clear()
        router.get("/forgotten")(metrics)
        return router

    monkeypatch.setattr(app_module, "login_routes", with_another)
    with pytest.raises(AssertionError, match="/forgotten does not say which role it needs"):
        made_app(Federation())


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "POST /login"])
def test_no_other_site_can_use_a_browser_that_is_logged_in(name: str, tmp_path: Path) -> None:
    federation = Federation()
    app = made_app(federation)
    cookie = {"Cookie": f"domo={session_of(PEOPLE, 'anna', 'admin')}"}
    for said in (
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"},
        {"Content-Type": "text/plain"},
    ):
        ready(federation, name, tmp_path)
        before = repr((federation.run_list, federation.silo_list, federation.submitted))
        assert asked(app, name, cookie | said) == 403, said
        after = repr((federation.run_list, federation.silo_list, federation.submitted))
        assert after == before
    assert asked(app, name, cookie | OWN) == allowed(name), "nothing of it has ended the session"


# ---- reading without a credential


def test_reading_is_open_on_loopback_only_and_to_who_is_there() -> None:
    here = made_app(Federation(), open_to=reading_open_to(False, True))
    name = "GET /api/v1/status"
    assert ask(here, name, {}).status_code == 200
    assert ask(here, "GET /metrics", {}).status_code == 200
    assert ask(here, "GET /api/v1/runs/{run_id}/model", {}).status_code == 401
    assert ask(here, "POST /api/v1/runs/{run_id}/stop", OWN).status_code == 401
    for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        assert ask(here, name, {header: "10.0.0.1"}).status_code == 401, header
    assert ask(here, name, {"Host": "evil.example"}).status_code == 401
    assert ask(here, name, {"Authorization": "Bearer wrong"}).status_code == 401, "it says so"
    assert ask(here, name, {"Cookie": "domo=of-yesterday"}).status_code == 200
    everybody = made_app(Federation(), open_to=reading_open_to(True, False))
    assert ask(everybody, name, {}, "203.0.113.9").status_code == 200
    assert ask(everybody, "GET /api/v1/runs/{run_id}/model", {}).status_code == 401
    session = ask(everybody, "GET /api/v1/session", {}).json()
    assert session == {"admin": False, "role": "viewer", "name": None}
    closed = made_app(Federation())
    session = ask(closed, "GET /api/v1/session", {}).json()
    assert session == {"admin": False, "role": None, "name": None}


# ---- limits on what is wrong


class Recorded(EventLog):
    """An event log that keeps what it is told in a list, on no thread."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.counters, self.repeated = Counters(), self  # type: ignore[assignment]

    def say(self, kind: kinds.EventKind, *words: Any) -> None:
        self.said.append((kind.name, words[-1]))


@pytest.fixture
def events() -> Recorded:
    return Recorded()


def login(app: FastAPI, address: str, **form: str) -> httpx.Response:
    return ask(app, "POST /login", {}, address, data=form)


@pytest.mark.parametrize("how", ["token", "code", "bearer"])
def test_ten_wrong_ones_a_minute_from_one_address(how: str, events: Recorded) -> None:
    app = made_app(Federation(), events=events)

    def wrong() -> httpx.Response:
        if how == "bearer":
            return ask(app, "GET /api/v1/status", {"Authorization": "Bearer no"}, "10.0.0.1")
        return login(app, "10.0.0.1", **{how: "no"})

    known = token_of(PEOPLE, "known-before", "viewer")
    good = {"Authorization": f"Bearer {known}"}
    assert ask(app, "GET /api/v1/status", good, "10.0.0.1").status_code == 200
    assert [wrong().status_code for _ in range(MAX_WRONG)] == [401] * MAX_WRONG
    answer = wrong()
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert "10.0.0.1" in answer.json()["error"]["message"]
    assert login(app, "10.0.0.1", token=TOKEN).status_code == 429, "nobody may go on guessing"
    assert login(app, "10.0.0.2", token=TOKEN).status_code == 303
    assert ask(app, "GET /api/v1/status", good, "10.0.0.1").status_code == 200, (
        "it was right before"
    )
    cookie = {"Cookie": f"domo={session_of(PEOPLE, 'anna', 'viewer')}"}
    assert ask(app, "GET /api/v1/status", cookie, "10.0.0.1").status_code == 200
    refusals = [text for kind, text in events.said if kind == "refused-login"]
    assert len(refusals) == MAX_WRONG + 2
    assert refusals[0].startswith("a log-in from 10.0.0.1 was refused: this ")
    assert refusals[-1] == "a log-in from 10.0.0.1 was refused: too many wrong log-ins"
    (counted,) = [m for m in events.counters.registry.collect() if "refused_logins" in m.name]
    numbers = {s.labels["why"]: s.value for s in counted.samples if s.name.endswith("_total")}
    assert numbers == {"wrong": MAX_WRONG, "limit": 2}


def test_a_token_that_was_right_and_is_revoked_is_counted(events: Recorded) -> None:
    app = made_app(Federation(), events=events)
    token = token_of(PEOPLE, "once-right", "viewer")
    good = {"Authorization": f"Bearer {token}"}
    assert ask(app, "GET /api/v1/status", good).status_code == 200
    PEOPLE._rows.revoke_token("once-right", now_text())
    codes = [ask(app, "GET /api/v1/status", good).status_code for _ in range(MAX_WRONG + 1)]
    assert codes == [401] * MAX_WRONG + [429]


def test_who_logs_in_and_out_is_an_event(events: Recorded) -> None:
    app = made_app(Federation(), events=events)
    answer = login(app, "10.0.0.1", code=PEOPLE.make_code("anna", "auditor"))
    cookie = {"Cookie": f"domo={answer.cookies['domo']}", **OWN}
    assert ask(app, "POST /logout", cookie, "10.0.0.3").status_code == 303
    assert ask(app, "POST /logout", cookie, "10.0.0.3").status_code == 303
    assert events.said == [
        ("logged-in", "anna (auditor) logged in, from 10.0.0.1"),
        ("logged-out", "anna logged out, from 10.0.0.3"),
    ]


def test_a_stream_ends_with_the_session_that_opened_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domo_server.dashboard.stream.CHECK_S", 0.2)
    federation = Federation()
    app = made_app(federation)
    app.state.streams._keepalive_s = 0.05
    session = session_of(PEOPLE, "anna", "viewer")

    async def go() -> float:
        transport = httpx.ASGITransport(app)
        cookies = {"domo": session}
        async with httpx.AsyncClient(
            transport=transport, base_url=f"http://{HOST}", cookies=cookies
        ) as client:
            stream = asyncio.create_task(client.get("/api/v1/stream"))
            await asyncio.sleep(0.5)
            assert not stream.done(), "it goes on while the session does"
            await PEOPLE.end(session)
            ended = time.monotonic()
            await asyncio.wait_for(stream, 5)
            return time.monotonic() - ended

    assert asyncio.run(go()) < 2


def test_who_did_it_is_told_to_what_does_it(tmp_path: Path) -> None:
    """Each change is made by the person, not by `the admin`."""
    federation, name = Federation(), "berta"
    app = made_app(federation)
    bearer = {"Authorization": f"Bearer {token_of(PEOPLE, name, 'admin')}"}
    asked_by: list[str] = []
    for method in (
        "submit", "edit", "pause", "resume", "stop", "drop", "undrop", "rebind", "revoke",
    ):  # fmt: skip

        def noted(*words: Any, real: Any = getattr(Federation, method)) -> Any:
            asked_by.append(words[-1])
            return real(federation, *words)

        setattr(federation, method, noted)
    for route in CHANGES:
        if ROUTES[route]["x-role"] == "admin":
            noting = {k: v for k, v in vars(federation).items() if callable(v)}
            ready(federation, route, tmp_path)
            vars(federation).update(noting)
            assert asked(app, route, bearer) == allowed(route), route
    assert asked_by == [name] * 10


def test_many_wrong_ones_at_once_are_no_way_around_the_limit(events: Recorded) -> None:
    app = made_app(Federation(), events=events)

    async def go() -> list[int]:
        transport = httpx.ASGITransport(app, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            forms = [{"code": "no"}, {"token": "no"}] * (2 * MAX_WRONG)
            answers = await asyncio.gather(*(client.post("/login", data=f) for f in forms))
            return [answer.status_code for answer in answers]

    told = asyncio.run(go())
    assert told.count(401) == MAX_WRONG
    assert set(told) <= {401, 429, 503}, "503: of those there are too many at once"


def test_right_ones_at_once_wait_for_each_other(events: Recorded) -> None:
    app = made_app(Federation(), events=events)
    names = [f"at-once-{i}" for i in range(2 * MAX_WRONG)]
    tokens = [token_of(PEOPLE, name, "viewer") for name in names]

    async def go() -> list[int]:
        transport = httpx.ASGITransport(app, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            gets = (
                client.get("/api/v1/status", headers={"Authorization": f"Bearer {token}"})
                for token in tokens
            )
            return [answer.status_code for answer in await asyncio.gather(*gets)]

    assert asyncio.run(go()) == [200] * len(tokens)


def test_a_log_in_ends_the_session_that_the_browser_had(events: Recorded) -> None:
    app = made_app(Federation(), events=events)
    before = session_of(PEOPLE, "before", "viewer")
    form = {"code": PEOPLE.make_code("anna", "admin")}
    answer = ask(app, "POST /login", {"Cookie": f"domo={before}"}, data=form)
    assert answer.status_code == 303
    assert PEOPLE._session(before) is None
    assert PEOPLE._session(answer.cookies["domo"]) is not None


def test_who_logs_in_again_and_again_fills_neither_events_nor_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domo_server.store.people.MOST_SESSIONS", 5)
    people = made_people()
    token = token_of(people, "anna", "viewer")
    others = session_of(people, "otto", "viewer")

    async def go() -> list[str]:
        log = EventLog(
            Store(open_database(f"sqlite:///{tmp_path / 'x.db'}")), Notifier(), Counters()
        )
        app = made_app(Federation(), people, events=log)
        transport = httpx.ASGITransport(app, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            for _ in range(30):
                assert (await client.post("/login", data={"token": token})).status_code == 303
                client.cookies.clear()
        await log.close()
        return [row.text for row in log._store.events_after(0, 1000)]

    told = asyncio.run(go())
    assert told == [
        "anna (viewer) logged in, from 10.0.0.1",
        "anna (viewer) logged in, from 10.0.0.1 (29 more in the last 60 s)",
    ]
    sessions = people._rows.sessions()
    assert [row.name for row in sessions].count("anna") == 5
    assert people._session(others) is not None
    people.close()


async def streamed(app: FastAPI, headers: dict[str, str]) -> str:
    """The first message with a status of a stream that ends after it."""
    hub = app.state.streams
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
        stream = asyncio.create_task(client.get("/api/v1/stream", headers=headers))
        while hub._now is None or not hub._now.made:  # noqa: ASYNC110 (nothing tells it)
            await asyncio.sleep(0.01)
        hub.close()
        return (await stream).text


@pytest.mark.parametrize("who", ["nobody", *ROLES])
def test_who_logs_in_is_for_auditors_and_admins(who: str) -> None:
    federation = Federation()
    first = federation.event_list[-1]
    for i, kind in enumerate(("logged-in", "logged-out", "refused-login", "joined"), 1):
        more = {"event_id": first.event_id + i, "kind": kind, "text": f"{kind} 203.0.113.9"}
        federation.event_list.append(first.model_copy(update=more))
    app = made_app(federation, open_to=reading_open_to(True, False))
    headers = shown(who, "bearer")
    sees = who in ("auditor", "admin")
    told = asyncio.run(streamed(made_app(federation, open_to=lambda _: True), headers))
    assert "joined 203.0.113.9" in told
    for kind in ("logged-in", "logged-out", "refused-login"):
        assert (f"{kind} 203.0.113.9" in told) is sees
        for query, always in (
            ("", True),
            (f"?kind={kind}&kind=joined", True),
            (f"?kind={kind}", 0),
        ):
            answer = ask(app, f"GET /api/v1/events{query}", headers)
            assert (f"{kind} 203.0.113.9" in answer.text) is sees
            if not sees and not always:
                assert answer.status_code == (401 if who == "nobody" else 403)
                assert "role auditor" in answer.text
            else:
                assert "joined 203.0.113.9" in answer.text or not always
