"""An OpenID Provider on loopback that says whatever it is told to, well signed or not.

It has no form: whoever comes is logged in as `claims` says, and sent back.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey

CLIENT, SECRET = "domo", "a-secret-of-the-client"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _part(value: Any) -> str:
    """A part of a token."""
    return _base64(json.dumps(value).encode())


class Provider:
    """What it says can be changed while it is up; `claims` and `header` of the next ID tokens."""

    def __init__(self, issuer: str, key: Key | None = None):
        self.issuer = issuer
        self.first_key = key or RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.key: Key = self.first_key
        self.published = [self.key.as_dict(private=False)]
        self.claims: dict[str, Any] = {
            "sub": "person-1", "email": "anna@example.org", "email_verified": True,
            "groups": ["domo-admins"],
        }  # fmt: skip
        self.changed: dict[str, Any] = {}
        """Of the claims that the protocol has; None takes one away."""
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "one"}
        self.signed: Callable[[Mapping[str, Any]], str] = self.sign
        self.userinfo: dict[str, Any] = {}
        self.document: dict[str, Any] = {}
        self.asked: list[str] = []
        self.seen: list[dict[str, str]] = []
        """Queries of the authorization endpoint."""
        self.codes: dict[str, dict[str, str]] = {}
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        """What takes the place of an answer, by path."""

    def sign(self, claims: Mapping[str, Any]) -> str:
        return jwt.encode(self.header, dict(claims), self.key, algorithms=[self.header["alg"]])

    def discovery(self) -> dict[str, Any]:
        at = self.issuer.rstrip("/")
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "jwks_uri": f"{at}/keys",
            "userinfo_endpoint": f"{at}/userinfo",
            "code_challenge_methods_supported": ["S256"],
            **self.document,
        }

    def code_for(self, url: str) -> dict[str, str]:
        """What a browser that was sent here comes back with."""
        asked = dict(parse_qsl(urlsplit(url).query))
        self.seen.append(asked)
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def redeemed(self, form: Mapping[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The token endpoint."""
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None:
            return 400, {"error": "invalid_grant"}
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {basic}" and form.get("client_secret") != SECRET:
            return 401, {"error": "invalid_client"}
        proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if asked.get("code_challenge") != _base64(proof):
            return 400, {"error": "invalid_grant"}
        if form.get("redirect_uri") != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        access = secrets.token_urlsafe(8)
        half = hashlib.sha256(access.encode()).digest()[:16]
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now,
            "nonce": asked.get("nonce"),
            "at_hash": _base64(half),
            **self.claims, **self.changed,
        }  # fmt: skip
        token = self.signed({k: v for k, v in claims.items() if v is not None})
        return 200, {"access_token": access, "token_type": "Bearer", "id_token": token}

    # lies about the key

    def unsigned(self, claims: Mapping[str, Any]) -> str:
        """alg none."""
        return f"{_part({'alg': 'none', 'typ': 'JWT'})}.{_part(dict(claims))}."

    def with_public_key(self, claims: Mapping[str, Any]) -> str:
        """HS256, whose secret is what everybody knows."""
        head = _part({"alg": "HS256", "kid": "one"})
        signed = f"{head}.{_part(dict(claims))}"
        secret = self.key.as_pem(private=False)
        return f"{signed}.{_base64(hmac.digest(secret, signed.encode(), 'sha256'))}"

    def with_another_key(self, claims: Mapping[str, Any]) -> str:
        """Signed by somebody who has not the provider's key, under its name."""
        other = RSAKey.generate_key(2048)
        return jwt.encode(self.header, dict(claims), other, algorithms=["RS256"])

    def with_own_key_in_it(self, claims: Mapping[str, Any]) -> str:
        """A token that brings the key to check it with."""
        other = ECKey.generate_key("P-256")
        header = {"alg": "ES256", "jwk": other.as_dict(private=False)}
        return jwt.encode(header, dict(claims), other, algorithms=["ES256"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: Provider

    def log_message(self, *args: Any) -> None:
        pass

    def _send(self, status: int, body: Any, **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self) -> None:
        provider, path = self.provider, urlsplit(self.path).path
        provider.asked.append(path)
        length = int(self.headers.get("content-length", 0))
        form = {k: v[0] for k, v in parse_qs(self.rfile.read(length).decode()).items()}
        if path in provider.answers:
            provider.answers[path](self)
        elif path == "/.well-known/openid-configuration":
            self._send(200, provider.discovery())
        elif path == "/keys":
            self._send(200, {"keys": provider.published})
        elif path == "/authorize":
            query = urlencode(provider.code_for(self.path))
            back = f"{provider.seen[-1]['redirect_uri']}?{query}"
            self._send(303, {}, location=back)
        elif path == "/token":
            self._send(*provider.redeemed(form, self.headers.get("authorization", "")))
        elif path == "/userinfo":
            self._send(200, provider.userinfo)
        else:
            self._send(404, {})

    do_GET = do_POST = _answer


@contextmanager
def lying_provider() -> Iterator[Provider]:
    """One that is up for the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    provider = Provider(f"http://127.0.0.1:{server.server_address[1]}")
    server.RequestHandlerClass = type("Handler", (_Handler,), {"provider": provider})
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
