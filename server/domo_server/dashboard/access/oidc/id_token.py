"""What makes an ID token one that is believed."""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.jwt import decode

from domo.errors import AccessError

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
    "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip
"""What may sign one. None that is made with a secret: the secret would be the public key."""
LEEWAY_S = 60
"""How far the provider's clock may be from this one."""
MAX_KEYS = 50
"""Keys of a provider that are looked at."""
MAX_KEY_BITS = 8192
"""Of RSA: larger ones make a signature take seconds."""
MAX_SUBJECT = 255
_SAYS = {
    "iss": "it is of another provider",
    "aud": "it is for another audience",
    "azp": "it is for another audience",
    "nonce": "it is of another log-in (nonce)",
    "exp": "it has expired",
    "iat": "it is of another time than this log-in: do both clocks go right?",
    "nbf": "it is not valid yet: do both clocks go right?",
    "at_hash": "it does not belong to its access token (at_hash)",
}
Key = RSAKey | ECKey | OKPKey


class UnknownKeyError(Exception):
    """Signed with no key that is known; the provider may have new ones."""


def public_keys(document: Mapping[str, Any]) -> list[Key]:
    """The keys of a provider that may sign.

    Raises:
        ValueError: It is no set of keys.
    """
    given = document.get("keys")
    if not isinstance(given, list):
        raise ValueError("no set of keys")
    found: list[Key] = []
    for one in given[:MAX_KEYS]:
        if not isinstance(one, dict) or one.get("use", "sig") != "sig":
            continue
        try:
            keys = KeySet.import_key_set({"keys": [one]}).keys
        except Exception:  # of a kind that nobody here knows
            continue
        found += [key for key in keys if isinstance(key, Key) and _fits_in_time(key)]
    return found


def _fits_in_time(key: Key) -> bool:
    return not isinstance(key, RSAKey) or 2048 <= key.public_key.key_size <= MAX_KEY_BITS


def check(
    token: str,
    keys: Iterable[Key],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    access_token: str | None,
    begun_at: int,
    now: int,
) -> dict[str, Any]:
    """The claims of an ID token that is good.

    Args:
        token: As the provider gave it.
        keys: The provider's.
        issuer, client_id: Who has to have made it, and for whom.
        nonce: Of the log-in that it is the answer to.
        access_token: That came with it.
        begun_at: When that log-in began, seconds since 1970.
        now: The clock.

    Raises:
        UnknownKeyError: No key fits.
        AccessError: Anything else is wrong with it.
    """
    signed = _verified(token, keys)
    options: Any = {
        "iss": {"essential": True, "value": issuer},
        "aud": {"essential": True, "value": client_id},
        "nonce": {"essential": True, "value": nonce},
    }
    params = {"nonce": nonce, "client_id": client_id, "access_token": access_token}
    claims = CodeIDToken(signed.claims, signed.header, options, params)
    try:
        claims.validate(now, LEEWAY_S)
        if claims["iat"] < begun_at - LEEWAY_S:
            raise AccessError(_wrong("iat"))
    except JoseError as error:
        raise AccessError(_wrong(getattr(error, "claim", ""))) from None
    except (TypeError, ValueError, AttributeError, OverflowError):
        raise AccessError(_wrong("")) from None
    if not 0 < len(claims["sub"]) <= MAX_SUBJECT:
        raise AccessError(_wrong(""))
    return dict(claims)


def _verified(token: str, keys: Iterable[Key]) -> Any:
    header = _header(token)
    if header.get("alg") not in ALGORITHMS:
        raise AccessError("its ID token is not signed, or in a way that is not taken")
    kid = header.get("kid")
    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    fits = [key for key in keys if kid is None or key.kid == kid]
    for key in fits:
        try:
            return decode(token, key, registry=registry)
        except (JoseError, ValueError, TypeError):
            continue
    raise UnknownKeyError


def _header(token: str) -> Mapping[str, Any]:
    head = token.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise AccessError("its ID token is none that can be read")
    return header


def _wrong(claim: str) -> str:
    return f"its ID token is not good: {_SAYS.get(claim, 'something in it is missing or wrong')}"
