"""Asking a provider over HTTP: bounded in time and size, never led elsewhere, never in clear."""

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from domo.api.heard import usable_environment
from domo.errors import ConfigError, TransportError
from domo.ops.addresses import is_local
from domo_server.dashboard_config import OidcConfig, is_safe_url

CONNECT_S = 5.0
"""For a connection, and between two pieces of an answer."""
ANSWER_S = 10.0
"""For one answer in all."""
MAX_ANSWER_BYTES = 256 * 1024
"""Of a document, of keys, of tokens."""


class Answer:
    """What a provider says: a status, and a JSON object.

    Attributes:
        is_success: Whether it did what it was asked for.
        said: The object; empty: there is none.
    """

    def __init__(self, is_success: bool, said: Mapping[str, Any]):
        self.is_success, self.said = is_success, said


class Fetcher:
    """Asks one provider.

    Args:
        config: Which.

    Raises:
        ConfigError: The CA of its certificate cannot be read, or a proxy variable is wrong.
    """

    def __init__(self, config: OidcConfig):
        for name in ("httpx", "httpcore"):  # their lines have whole addresses
            logging.getLogger(name).setLevel(logging.WARNING)
        self.host = urlsplit(config.issuer).netloc
        try:
            verify = ssl.create_default_context(cafile=config.ca)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(f"server.oidc: ca: {config.ca} cannot be read: {why}") from None
        is_here = is_local(urlsplit(config.issuer).hostname or "")
        with usable_environment():
            self._http = httpx.AsyncClient(
                verify=verify,
                timeout=CONNECT_S,
                follow_redirects=False,
                trust_env=not is_here,
                headers={"accept": "application/json", "accept-encoding": "identity",
                         "user-agent": "domo-server"},
            )  # fmt: skip

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Ask for a document.

        Raises:
            TransportError: There is no answer, or none that can be used.
        """
        return await self._ask("GET", url, headers or {}, None)

    async def post(self, url: str, headers: Mapping[str, str], body: str) -> Answer:
        """Send a form.

        Raises:
            TransportError: There is no answer, or none that can be used.
        """
        return await self._ask("POST", url, headers, body.encode())

    async def _ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        if not is_safe_url(url):
            raise TransportError(f"the provider {self.host} names an address that is not safe")
        try:
            async with (
                asyncio.timeout(ANSWER_S),
                self._http.stream(method, url, headers=dict(headers), content=body) as answer,
            ):
                content = await _body(answer)
        except (TimeoutError, httpx.TimeoutException):
            raise TransportError(f"the provider {self.host} does not answer in time") from None
        except httpx.HTTPError as error:
            why = _why(error)
            raise TransportError(f"the provider {self.host} cannot be reached: {why}") from None
        except _TooMuchError as error:
            raise TransportError(f"the provider {self.host} {error}") from None
        if answer.is_redirect:
            raise TransportError(
                f"the provider {self.host} sends the coordinator elsewhere, where it does not go"
            )
        try:
            said = json.loads(content)
        except (ValueError, RecursionError):
            said = None
        return Answer(answer.is_success, said if isinstance(said, dict) else {})


class _TooMuchError(Exception):
    """An answer is not read to its end."""


async def _body(answer: httpx.Response) -> bytes:
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise _TooMuchError("packs an answer that was asked for as it is")
    content = bytearray()
    async for piece in answer.aiter_raw():
        content += piece
        if len(content) > MAX_ANSWER_BYTES:
            raise _TooMuchError(f"answers with more than {MAX_ANSWER_BYTES // 1024} KiB")
    return bytes(content)


def _why(error: httpx.HTTPError) -> str:
    """In words of this side's: what the other one says may be anything."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not one to be trusted; a CA of one's own is given as ca"
    if isinstance(error, httpx.ConnectError):
        return "it does not listen, or has no address here"
    if isinstance(error, httpx.ProxyError):
        return "the proxy on the way refuses it"
    return "the connection breaks, or it is no HTTP"
