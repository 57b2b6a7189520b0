"""Log-ins that have begun: all that is known of one lies sealed in the browser that began it.

So somebody who begins log-ins by the million takes no memory, and pushes nobody else's out.
"""

import hmac
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from cryptography.fernet import Fernet, InvalidToken

from domo.errors import AccessError

BEGUN_S = 600
"""How long somebody may take at the provider."""
MAX_USED = 10_000
"""Log-ins that are remembered as used, of those that would still be good; the oldest goes first."""
MAX_COOKIE_BYTES = 4096
MAX_PLACE_CHARACTERS = 500
"""Of the page that is open again after the log-in."""
SECRET_BYTES = 32
"""Of state, nonce and verifier."""
AGAIN = "begin the log-in again, in one tab of one browser"
"""What helps."""
NONE_BEGUN = (
    f"no log-in is under way in this browser, or not for the last {BEGUN_S // 60} minutes: {AGAIN}"
)


class Begun(NamedTuple):
    """One log-in.

    Attributes:
        state: Comes back with the answer, and shows which log-in it is for.
        nonce: Stands in the ID token.
        verifier: Shows to the provider that the code is this log-in's (PKCE).
        place: The page to come back to, `#/...` or empty.
        at: When it began, seconds since 1970.
    """

    state: str
    nonce: str
    verifier: str
    place: str
    at: int


class BegunLogins:
    """Seals what a log-in needs into a cookie, and opens it once.

    Args:
        clock: Seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time):
        self._clock = clock
        self._seal = Fernet(Fernet.generate_key())  # a log-in does not outlive the process
        self._used: OrderedDict[str, None] = OrderedDict()

    def begin(self, place: str) -> tuple[Begun, str]:
        """A new log-in, and the cookie that holds it."""
        at = int(self._clock())
        state, nonce, verifier = (secrets.token_urlsafe(SECRET_BYTES) for _ in range(3))
        begun = Begun(state, nonce, verifier, place, at)
        return begun, self._seal.encrypt_at_time(json.dumps(begun).encode(), at).decode()

    def open(self, cookie: str, state: str) -> Begun:
        """The log-in that an answer is for. It cannot be opened again.

        Raises:
            AccessError: It is another browser's, too old, used, or never was one.
        """
        try:
            if not cookie or len(cookie) > MAX_COOKIE_BYTES:
                raise InvalidToken
            sealed = self._seal.decrypt_at_time(cookie.encode(), BEGUN_S, int(self._clock()))
        except (InvalidToken, UnicodeError):
            raise AccessError(NONE_BEGUN) from None
        begun = Begun(*json.loads(sealed))
        if not hmac.compare_digest(state.encode(), begun.state.encode()):
            raise AccessError(f"this answer is for the log-in of another browser or tab: {AGAIN}")
        if begun.state in self._used:
            raise AccessError(f"this log-in was used already: {AGAIN}")
        self._used[begun.state] = None
        if len(self._used) > MAX_USED:
            self._used.popitem(last=False)
        return begun


def place_of(given: str) -> str:
    """The part of an address after the page's, if it is one of the page's: no way out of it."""
    is_place = given.startswith("#/") and len(given) <= MAX_PLACE_CHARACTERS
    return given if is_place and given.isascii() and given.isprintable() else ""
