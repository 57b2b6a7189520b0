"""One OpenID Provider: its doors, its keys, and a code in exchange for who somebody is."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from domo.errors import AccessError, TransportError
from domo_server.dashboard.access.oidc import claims as of_claims
from domo_server.dashboard.access.oidc.begun import Begun
from domo_server.dashboard.access.oidc.doors import Doors, doors_of, secret_of
from domo_server.dashboard.access.oidc.fetch import Fetcher
from domo_server.dashboard.access.oidc.id_token import Key, UnknownKeyError, check, public_keys
from domo_server.dashboard_config import OidcConfig

KNOWN_S = 3600.0
"""How long what the provider said of itself, and its keys, are taken for granted."""
AGAIN_S = 10.0
"""Shortest time between two looks: after one that failed, and for a key that is not known."""
MAX_WAITING = 32
"""Log-ins that are being finished at once; a further one is told to try again."""
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Provider:
    """A provider, as one coordinator knows it.

    Args:
        config: Which, and under which name this side is known there.
        redirect_uri: Where it sends browsers back.
        clock: Seconds since 1970.
        ticks: Monotonic seconds.

    Raises:
        ConfigError: The secret or the CA cannot be read.
    """

    def __init__(
        self,
        config: OidcConfig,
        redirect_uri: str,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ):
        self.config, self.redirect_uri = config, redirect_uri
        self._secret, self._http = secret_of(config), Fetcher(config)
        self._clock, self._ticks = clock, ticks
        self._doors: Doors | None = None
        self._keys: list[Key] = []
        self._doors_at = self._keys_at = float("-inf")
        self._failed_at, self._failure = float("-inf"), ""
        self._looking = asyncio.Lock()
        self._waiting = 0

    @property
    def name(self) -> str:
        """Its host, as people read it."""
        return self._http.host

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()

    # where a log-in begins

    async def way_to(self, begun: Begun) -> str:
        """Where the browser goes for a log-in.

        Raises:
            TransportError: The provider does not say.
        """
        doors = await self.doors()
        return str(
            prepare_grant_uri(
                doors.authorize,
                self.config.client_id,
                "code",
                redirect_uri=self.redirect_uri,
                scope=" ".join(self.config.scopes),
                state=begun.state,
                nonce=begun.nonce,
                code_challenge=create_s256_code_challenge(begun.verifier),
                code_challenge_method="S256",
            )
        )

    async def doors(self) -> Doors:
        """What the provider says of itself, kept for a while.

        Raises:
            TransportError: It does not answer, or not as what it is taken for.
        """
        async with self._looking:
            if self._doors is None or self._ticks() - self._doors_at > KNOWN_S:
                await self._once(self._discover)
            assert self._doors is not None
            return self._doors

    async def _once(self, look: Callable[[], Any]) -> None:
        """Look; after a look that failed, the next ones say so without one."""
        if self._ticks() - self._failed_at < AGAIN_S:
            raise TransportError(self._failure)
        try:
            await look()
        except TransportError as error:
            self._failed_at, self._failure = self._ticks(), str(error)
            raise

    async def _discover(self) -> None:
        url = f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration"
        answer = await self._http.get(url)
        if not answer.is_success or not answer.said:
            raise TransportError(f"the provider {self.name} does not say what it is, at {url}")
        self._doors, self._doors_at = doors_of(self.config, answer.said), self._ticks()

    async def keys(self, *, again: bool = False) -> list[Key]:
        """Its public keys, kept for a while.

        Args:
            again: A key was not among them: it may have new ones.

        Raises:
            TransportError: It does not say.
        """
        doors = await self.doors()
        async with self._looking:
            age_s = self._ticks() - self._keys_at
            if age_s > KNOWN_S or (again and age_s > AGAIN_S):
                await self._once(lambda: self._fetch_keys(doors.keys))
            return self._keys

    async def _fetch_keys(self, url: str) -> None:
        answer = await self._http.get(url)
        try:
            self._keys = public_keys(answer.said)
        except ValueError:
            raise TransportError(f"the provider {self.name} does not say its keys") from None
        self._keys_at = self._ticks()

    # where it ends

    async def redeem(self, code: str, begun: Begun) -> Mapping[str, Any]:
        """Who somebody is, by the code that the browser came back with.

        Raises:
            AccessError: The provider does not vouch for anybody.
            TransportError: It does not answer.
        """
        if self._waiting >= MAX_WAITING:
            raise TransportError("too many log-ins are under way; try again in a moment")
        self._waiting += 1
        try:
            return await self._redeem(code, begun)
        finally:
            self._waiting -= 1

    async def _redeem(self, code: str, begun: Begun) -> Mapping[str, Any]:
        doors = await self.doors()
        answer = await self._http.post(doors.token, *self._request(doors, code, begun))
        id_token, access_token = (answer.said.get(k) for k in ("id_token", "access_token"))
        if not answer.is_success or not isinstance(id_token, str):
            raise AccessError(
                f"the provider {self.name} does not take the code of this log-in (it may be used "
                "already), or does not take this coordinator for its client"
            )
        if not isinstance(access_token, str):
            access_token = None
        claims = await self._claims(id_token, access_token, begun)
        if access_token and doors.userinfo and of_claims.is_missing(self.config, claims):
            claims = {**await self._userinfo(doors, access_token, claims["sub"]), **claims}
        return claims

    def _request(self, doors: Doors, code: str, begun: Begun) -> tuple[dict[str, str], str]:
        """Headers and body with which a code is exchanged."""
        body = prepare_token_request(
            "authorization_code",
            redirect_uri=self.redirect_uri,
            code=code,
            code_verifier=begun.verifier,
        )
        how = "client_secret_post" if doors.by_post else "client_secret_basic"
        auth = ClientAuth(self.config.client_id, self._secret, how if self._secret else "none")
        _, headers, body = auth.prepare("POST", doors.token, dict(FORM), body)
        return headers, body

    async def _claims(
        self, id_token: str, access_token: str | None, begun: Begun
    ) -> dict[str, Any]:
        def checked(keys: list[Key]) -> dict[str, Any]:
            return check(
                id_token,
                keys,
                issuer=self.config.issuer,
                client_id=self.config.client_id,
                nonce=begun.nonce,
                access_token=access_token,
                begun_at=begun.at,
                now=int(self._clock()),
            )

        for again in (False, True):
            with contextlib.suppress(UnknownKeyError):
                return await asyncio.to_thread(checked, await self.keys(again=again))
        raise AccessError("its ID token is signed with none of the provider's keys")

    async def _userinfo(self, doors: Doors, access_token: str, subject: str) -> Mapping[str, Any]:
        headers = {"authorization": f"Bearer {access_token}"}
        answer = await self._http.get(doors.userinfo, headers)
        if not answer.is_success or answer.said.get("sub") != subject:
            raise AccessError(f"the provider {self.name} does not say more about this person")
        return answer.said
