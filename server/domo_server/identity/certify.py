"""Certificates for silos: by a code, which is good once; by the present one, for its own key."""

import asyncio
import secrets
import time
from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding

from domo.errors import (
    AccessError,
    ConfigError,
    CoordinatorUnavailableError,
    DomoError,
    ProtocolError,
)
from domo.names import shown
from domo.ops.words import typed
from domo_proto.enrolment import Code, make_code
from domo_proto.errors import TooManyCallsError
from domo_proto.identities import Request, read_request
from domo_server.events import kinds
from domo_server.identity.authority import Authority
from domo_server.identity.guard import Call, Guard
from domo_server.identity.refusals import CodeError
from domo_server.silos.rates import Rates
from domo_server.store.admissions import Admissions, CodeRow
from domo_server.store.store import time_text

Say = Callable[..., None]

MOST_CERTIFIED, CERTIFIED_PER_S = 10, 0.2
"""Certificates that one key, or one code, gets: at once, and a second on average. Each is a change
of the database, an event, and the table of who is let in read anew."""


def new_code(
    authority: Authority,
    admissions: Admissions,
    name: str,
    address: str,
    valid_s: float,
    days: float,
    by_whom: str,
) -> str:
    """Make a code and write it down. Blocks.

    Args:
        authority: Whose certificates they will be.
        admissions: Where it is written.
        name: Of the silo.
        address: host:port of the coordinator.
        valid_s: For how long the code is good.
        days: For how long the silo's certificates will be.
        by_whom: Who wants it.
    """
    nonce = secrets.token_urlsafe(16)
    cert, key = authority.certify_code(name, nonce)
    line = make_code(Code(address, key, cert, authority.ca_pem))
    admissions.invite(name, by_whom, nonce, time.time() + valid_s, days)
    return line


class Certifier:
    """The rpc `Certify`.

    Args:
        authority: The CA; None: the coordinator has none of its own.
        guard: Knows who calls.
        say: Records an event: kind, text, `silo_id`.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        authority: Authority | None,
        guard: Guard,
        say: Say,
        clock: Callable[[], float] = time.time,
    ):
        self.authority, self._guard, self._say, self._clock = authority, guard, say, clock
        self._rates = Rates(MOST_CERTIFIED, CERTIFIED_PER_S)

    async def certify(self, call: Call, request_pem: bytes) -> tuple[bytes, bytes]:
        """The certificate for a request, and the CA (PEM).

        Raises:
            AccessError: Whoever calls may not have it.
            ProtocolError: It is no request.
            TooManyCallsError: It has had many just now.
        """
        authority = self.authority
        if authority is None or call.peer is None:
            raise AccessError(
                "this coordinator makes no certificates: it has no CA of its own. Ask its admin "
                "where yours comes from"
            )
        if not self._rates.take(call.peer.key):
            raise TooManyCallsError(
                f"{call.peer.shown} asks for too many certificates; ask again in a while"
            )
        try:
            request = read_request(request_pem)
        except ConfigError as error:
            raise ProtocolError(str(error)) from None
        name, nonce = call.peer.invited
        if name:
            cert = await self._by_code(call, request, name, nonce, authority)
        else:
            cert = await self._renewed(call, request, authority)
        return cert, authority.ca_pem

    async def _by_code(
        self, call: Call, request: Request, name: str, nonce: str, authority: Authority
    ) -> bytes:
        admissions = self._guard.admissions
        code = await asyncio.to_thread(admissions.code, nonce)
        if (why := self._refusal(code, request, name)) is not None:
            raise self._guard.refuse(call, why, kinds.REFUSED_CODE)
        assert code is not None
        if code.certificate is not None:  # the answer was lost on its way
            return code.certificate.encode()
        cert, pem = _signed(authority, request.csr.public_key(), name, code.days)
        until = cert.not_valid_after_utc.timestamp()
        if not await asyncio.to_thread(
            admissions.use, code, request.fingerprint, until, pem.decode()
        ):  # two at once: the other one has it
            return await self._by_code(call, request, name, nonce, authority)
        await self._guard.changed()
        self._say(
            kinds.ADMITTED,
            f"{name} has its certificate, by a code, from {call.address}: key "
            f"{request.fingerprint}, until {time_text(until)[:16]}Z",
            silo_id=name,
        )
        return pem

    def _refusal(self, code: CodeRow | None, request: Request, name: str) -> DomoError | None:
        command = typed("domo-server", "enroll", name)
        again = f"ask the coordinator's admin for a new one: {command}"
        if code is None or code.silo_id != name:
            return CodeError(
                f"this code for {name} is not known here: a newer one was made since, {name} was "
                f"let in or revoked, or the code is of another database; {again}"
            )
        if wrong := [asked for asked in request.names if asked != name]:
            return CodeError(
                f"the request asks to be {shown(', '.join(wrong))[:200]}, and the code is for "
                f"{name}"
            )
        used = code.used_at is not None
        if used and not (code.key == request.fingerprint and self._clock() < code.until):
            return CodeError(
                f"this code for {name} was used already, at {(code.used_at or '')[:19]}Z by the "
                f"key {code.key}. If that was not you, tell the coordinator's admin at once; else "
                f"{again}"
            )
        if not used and self._clock() >= code.until:
            ended = time_text(code.until)[:19]
            return CodeError(f"this code for {name} expired at {ended}Z; {again}")
        return None

    async def _renewed(self, call: Call, request: Request, authority: Authority) -> bytes:
        assert call.peer is not None
        names = sorted(call.peer.names)
        if len(names) != 1:
            raise self._guard.refuse(call, AccessError("a certificate of one silo is renewed"))
        (name,) = names
        self._guard.speaks_for(name)
        if wrong := [asked for asked in request.names if asked != name]:
            text = f"the request asks to be {shown(', '.join(wrong))[:200]}, and the certificate "
            raise self._guard.refuse(call, CodeError(f"{text}is for {name}"))
        if request.fingerprint != call.peer.key:
            text = (
                f"a certificate is renewed for its own key, {call.peer.key}, and the request has "
                f"{request.fingerprint}. A new key needs a new code: domo-server enroll {name}"
            )
            raise self._guard.refuse(call, AccessError(text))
        row = await asyncio.to_thread(self._guard.admissions.of, name)
        if row is None or row.days is None:
            text = f"certificates of {name} are not made here: domo-server enroll {name} does that"
            raise self._guard.refuse(call, AccessError(text))
        cert, pem = _signed(authority, request.csr.public_key(), name, row.days)
        until = cert.not_valid_after_utc.timestamp()
        renewed = self._guard.admissions.renewed
        is_renewed = await asyncio.to_thread(renewed, name, request.fingerprint, until)
        await self._guard.changed()
        if not is_renewed:  # it was changed just now
            self._guard.speaks_for(name)  # says why, if it is out
            raise CoordinatorUnavailableError(f"the admission of {name} is being changed")
        text = f"the certificate of {name} was renewed, until {time_text(until)[:16]}Z"
        self._say(kinds.RENEWED, text, silo_id=name)
        return pem


def _signed(
    authority: Authority, key: CertificatePublicKeyTypes, name: str, days: float
) -> tuple[x509.Certificate, bytes]:
    cert = authority.certify(key, name, days)
    return cert, cert.public_bytes(Encoding.PEM)
