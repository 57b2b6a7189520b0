"""Who asks, found in one place, and whether that person may."""

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from domo.errors import AccessError
from domo_server.dashboard.access.origin import bearer_of, refuse_other_sites
from domo_server.dashboard.access.peer import address_of, is_https
from domo_server.dashboard.errors import ApiError
from domo_server.events import kinds
from domo_server.events.event_log import EventLog
from domo_server.people.credentials import digest
from domo_server.people.people import SESSION_S, People
from domo_server.people.person import ANYBODY, ROLES, Person, Role
from domo_server.people.tries import PER_S, Tries

Needs = Role | Literal["nobody"]
"""What a route asks for; `nobody`: it is open to whoever reaches the port."""
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
MAX_RIGHT = 1000
"""Tokens that are remembered as right, so that wrong ones of their address do not keep them out."""
LOOK_S = 0.02
"""How often it is looked whether those before have turned out right or wrong."""
HOW = (
    "Send 'Authorization: Bearer <token>', or log in at /login. `domo-server login` on the "
    "coordinator's machine prints a link that logs in; `domo-server token create` makes tokens."
)
"""How to be somebody."""


class Gate:
    """Finds who asks, and counts who shows something wrong.

    Args:
        people: Whose tokens and sessions there are.
        is_open: Whether somebody without any credential may read.
        cookie_name: Of sessions; cookies are shared by all ports of a host, and two coordinators
            may run on one.
        events: Told who logs in and who is turned away; None: nobody is.
    """

    def __init__(
        self,
        people: People,
        is_open: Callable[[Request], bool],
        cookie_name: str = "domo",
        events: EventLog | None = None,
    ):
        self.people, self._is_open, self._name, self._events = people, is_open, cookie_name, events
        self._tries, self._right = Tries(), dict[str, None]()

    async def person(self, request: Request) -> Person | None:
        """Who asks: of a bearer token, else of a session, else anybody where reading is open.

        Raises:
            ApiError: 401, the token is nobody's; 429, the address has shown too many of those.
        """
        if not hasattr(request.state, "person"):  # asked once, however many want to know
            request.state.person = await self._find(request)
        found: Person | None = request.state.person
        return found

    async def _find(self, request: Request) -> Person | None:
        given = bearer_of(request)
        if given is not None:
            who: Person = await self.checked(request, given, lambda: self.people.by_token(given))
            return who
        cookie = self.cookie(request)
        if cookie and (found := await self.people.find(cookie)) is not None:
            return found
        return ANYBODY if self._is_open(request) else None

    async def still(self, request: Request) -> bool:
        """Whether who was let in would be let in again; for answers that last."""
        if request.state.person is ANYBODY:
            return True
        given, cookie = bearer_of(request), self.cookie(request)
        try:
            if given is not None:
                return (await self.people.by_token(given)).may("viewer")
            return await self.people.find(cookie) is not None
        except AccessError:
            return False

    async def log_in(self, request: Request, token: str = "", code: str = "") -> tuple[Person, str]:
        """Begin a session by a token or a code: who, and the value of the cookie.

        Raises:
            ApiError: As of `person`.
        """
        people = self.people
        begin = (lambda: people.by_code(code)) if code else (lambda: people.log_in(token))
        found: tuple[Person, str] = await self.checked(request, code or token, begin)
        await self.logged_in(request, found[0])
        return found

    async def checked(
        self, request: Request, secret: str, find: Callable[[], Any], *, asks_others: bool = False
    ) -> Any:
        """What `find` finds by a secret, unless its address has shown too many wrong ones.

        Args:
            request: Which shows it.
            secret: The secret.
            find: Looks for it.
            asks_others: It may take long, and has a limit of its own on how many are under way.

        Raises:
            ApiError: 401, it is wrong; 429, it was not looked at.
        """
        key, address = digest(secret), address_of(request)
        was_right = key in self._right
        while not was_right:
            if (wait_s := self._tries.wait_s(address)) > 0:
                raise self.refused(request, "too many wrong log-ins", wait_s)
            if asks_others or self._tries.begin(address):
                break
            await asyncio.sleep(LOOK_S)  # so many are being looked at that all may be wrong
        try:
            found = await find()
        except AccessError as error:
            self._right.pop(key, None)
            self._tries.wrong(address)
            raise self.refused(request, str(error)) from None
        finally:
            if not was_right and not asks_others:
                self._tries.end(address)
        self._right[key] = None
        if len(self._right) > MAX_RIGHT:
            del self._right[next(iter(self._right))]
        return found

    def refused(self, request: Request, why: str, wait_s: float = 0.0) -> ApiError:
        """Count, log and record that somebody was turned away; what to answer."""
        address = address_of(request)
        text = f"a log-in from {address} was refused: {why}"
        if self._events is not None:
            self._events.counters.refused_login("limit" if wait_s else "wrong")
            self._events.repeated.say(kinds.REFUSED_LOGIN, address, text)
        if wait_s:
            message = (
                f"too many wrong tokens and log-ins came from {address} in the last {PER_S:.0f} s. "
                "Try again in a moment."
            )
            headers = {"Retry-After": str(math.ceil(wait_s))}
            return ApiError(429, "too_many_tries", message, headers)
        return ApiError(401, "unauthorized", f"{why}. {HOW}", {"WWW-Authenticate": "Bearer"})

    async def logged_in(self, request: Request, person: Person) -> None:
        """Record that somebody has logged in; the session that the browser had before ends."""
        if before := self.cookie(request):
            await self.people.end(before)
        self._say(kinds.LOGGED_IN, person, f"({person.role}) logged in", request)

    async def log_out(self, request: Request) -> None:
        """End the session that a request comes with."""
        cookie = self.cookie(request)
        person = await self.people.find(cookie) if cookie else None
        if person is not None:
            await self.people.end(cookie)
            self._say(kinds.LOGGED_OUT, person, "logged out", request)

    def _say(self, kind: kinds.EventKind, person: Person, what: str, request: Request) -> None:
        """At once, and counted where it comes again: nobody fills the events by logging in."""
        if self._events is not None:
            source = f"{person.name} {address_of(request)}"
            text = f"{person.name} {what}, from {address_of(request)}"
            self._events.repeated.say(kind, source, text)

    # the cookie

    def cookie_name(self, request: Request) -> str:
        """A name that browsers take from this host over TLS only, where there is TLS."""
        return f"__Host-{self._name}" if is_https(request) else self._name

    def cookie(self, request: Request) -> str:
        """The session that a request comes with; empty: none."""
        return request.cookies.get(self.cookie_name(request), "")

    def welcome(self, request: Request, response: Response, cookie: str) -> None:
        """Give a browser its session."""
        response.set_cookie(
            self.cookie_name(request),
            cookie,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=is_https(request),
        )

    def goodbye(self, request: Request, response: Response) -> None:
        """Take it back."""
        response.delete_cookie(
            self.cookie_name(request),
            httponly=True,
            samesite="strict",
            secure=is_https(request),
        )


class Requires:
    """A dependency of a route: the role that it needs; the person, for whoever wants to know.

    Args:
        role: The role.
    """

    def __init__(self, role: Needs):
        self.role = role

    async def __call__(self, request: Request) -> Person:
        """Let the person in.

        Raises:
            ApiError: 401 without a valid credential; 403 if the role is not enough, or a cookie
                came from another site; 429 after too many wrong credentials.
        """
        if self.role == "nobody":
            return ANYBODY
        gate: Gate = request.app.state.gate
        person = await gate.person(request)
        changes = request.method in CHANGING
        if person is None or (person is ANYBODY and not person.may(self.role)):
            message = f"this needs a person with the role {self.role}. {HOW}"
            raise ApiError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
        if changes:
            refuse_other_sites(request)
        if not person.may(self.role):
            message = (
                f"this needs the role {self.role}, and {person.name} has {person.role}. "
                "Who operates the coordinator gives roles: domo-server token create, or login."
            )
            raise ApiError(403, "forbidden", message)
        return person


@lru_cache
def _needs(role: Needs) -> Requires:
    return Requires(role)


def requires(role: Needs) -> Any:
    """What a route declares, in `dependencies` or as the default of a parameter: a `Person`."""
    return Depends(_needs(role))


def say_roles(routes: Iterable[BaseRoute]) -> None:
    """Put what each route needs into the OpenAPI document: what its dependencies ask for.

    Raises:
        AssertionError: A route declares no role.
    """
    order: tuple[Needs, ...] = ("nobody", *ROLES)
    for route in routes:
        if not isinstance(route, APIRoute):
            continue
        asked = [d.call.role for d in route.dependant.dependencies if isinstance(d.call, Requires)]
        if not asked:
            raise AssertionError(f"{route.path} does not say which role it needs")
        role = max(asked, key=order.index)
        said: dict[str, Any] = {"x-role": role}
        if role != "nobody":
            said["security"] = [{"bearer": []}, {"cookie": []}]
        route.openapi_extra = (route.openapi_extra or {}) | said


def cookie_name(folder: str) -> str:
    """The name of the cookie of a coordinator that keeps its state in a folder."""
    return f"domo_{hashlib.sha256(folder.encode()).hexdigest()[:8]}"
