"""One message to one webhook: what is in it, how it is signed, and what its answer means.

Signatures are those of Standard Webhooks (standardwebhooks.com), so that libraries can check them.
"""

import base64
import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from domo.api.heard import usable_environment, why
from domo.api.schema import Event, RunSummary
from domo.errors import ConfigError, DomoError, TransportError
from domo.names import MOST_SAID, one_line
from domo.ops.proxies import note_of_http
from domo_server.config import WebhookConfig
from domo_server.events.kinds import KINDS

BY_HOOK = {kind.webhook: kind.name for kind in KINDS.values() if kind.webhook}
"""What a webhook may be told, and the kind of that event."""
NAMES = {name: hook for hook, name in BY_HOOK.items()}
TIMEOUT_S = 10.0
PREFIX = "whsec_"
CHAT = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "@": "\N{FULLWIDTH COMMERCIAL AT}",
    "](": "] (",
    "][": "] [",
    "]:": "] :",
}
"""What chats take for markup, in the order in which it is replaced."""
AGAIN = (408, 425, 429)
"""Refusals that may not last, as those from 500 on."""


class DeliveryError(TransportError):
    """The other end cannot take a message for the moment."""

    code = "delivery"


class RefusedError(DomoError):
    """The other end will never take this message."""

    code = "delivery-refused"


class Hook:
    """A webhook with its secret.

    Args:
        config: From [[server.webhooks]].

    Raises:
        ConfigError: Its secret cannot be read, or no client can be made with the proxy variables.
    """

    def __init__(self, config: WebhookConfig):
        self.url, self.kinds = config.url, [BY_HOOK[name] for name in config.events]
        self.host = urlsplit(self.url).netloc.rpartition("@")[2]
        self.key = hashlib.sha256(self.url.encode()).hexdigest()
        self._secret = _secret(config)
        client()  # a variable that it can do nothing with is said now

    async def send(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> None:
        """Send one message, once.

        Raises:
            DeliveryError: It may be tried again.
            RefusedError: It may not.
        """
        content = json.dumps(body).encode()
        headers = self.headers(str(body["event_id"]), int(time.time()), content)
        try:
            answer = await client.post(self.url, content=content, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise DeliveryError(why(error, self.url)) from None
        if answer.status_code >= 500 or answer.status_code in AGAIN:
            raise DeliveryError(f"it answered {answer.status_code}{note_of_http(self.url)}")
        if not answer.is_success:
            raise RefusedError(f"it answered {answer.status_code}{note_of_http(self.url)}")

    def headers(self, message_id: str, at_s: int, content: bytes) -> dict[str, str]:
        """Of a message: its id, its time in seconds since 1970, its signature."""
        found = {
            "content-type": "application/json",
            "user-agent": "domo-server",
            "webhook-id": message_id,
            "webhook-timestamp": str(at_s),
        }
        if self._secret is not None:
            signed = b".".join([message_id.encode(), str(at_s).encode(), content])
            digest = hmac.digest(self._secret, signed, "sha256")
            found["webhook-signature"] = "v1," + base64.b64encode(digest).decode()
        return found


def client() -> httpx.AsyncClient:
    """What sends messages. Its own log lines have the whole address, which may be a secret."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with usable_environment():
        return httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)


def for_chat(text: str) -> str:
    """A text that a chat shows as it is: it calls nobody, and no link says other than it leads to.

    `&`, `<` and `>` as Slack wants them, which Mattermost and Teams read too; `@` becomes one that
    no chat takes for a name's; a link of Markdown is torn between its words and its address.
    """
    for sign, shown in CHAT.items():
        text = text.replace(sign, shown)
    return text


def body_of(event: Event, run: RunSummary | None, page: str | None) -> dict[str, Any]:
    """The message about an event.

    Args:
        event: What happened.
        run: Its run, as it is now.
        page: The dashboard's address.
    """
    link, text = None, one_line(event.text, MOST_SAID)
    if page is not None:
        of_run = "" if event.run_id is None else f"#/runs/{quote(event.run_id, safe='')}"
        link = f"{page.rstrip('/')}/{of_run}"
    return {
        "event": NAMES.get(event.kind, event.kind),
        "event_id": event.event_id,
        "at": event.at,
        "text": f"domo: {for_chat(text)}" + (f"\n{link}" if link else ""),
        "reason": text,
        "run_id": event.run_id,
        "silo_id": event.silo_id,
        "run": None if run is None else run.model_dump(mode="json"),
        "link": link,
    }


def _secret(config: WebhookConfig) -> bytes | None:
    what = "webhooks: the secret"
    if config.secret_env is not None:
        text = os.environ.get(config.secret_env, "")
        if not text:
            raise ConfigError(f"{what}'s variable {config.secret_env} is not set")
    elif config.secret_file is not None:
        try:
            text = config.secret_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{what} cannot be read from {config.secret_file}: {error}") from None
        if not text:
            raise ConfigError(f"{what}'s file {config.secret_file} is empty")
    else:
        return None
    if not text.startswith(PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except ValueError:
        raise ConfigError(f"{what} begins with {PREFIX}, but no base64 follows") from None
