"""The check of every call of a silo, and the end of calls whose caller may not go on.

A certificate is no ticket: its name is looked up in the table of admissions, with its key, and its
end is compared with this machine's clock, in each call, and again and again for calls under way.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any

from domo.errors import AccessError, DomoError, TransportError
from domo.names import shown
from domo_server.events import kinds
from domo_server.events.repeated import Repeated
from domo_server.identity.admitted import Admitted, Rules
from domo_server.identity.peers import Peer, Peers, address_of
from domo_server.identity.refusals import CodeError
from domo_server.store.admissions import Admissions

log = logging.getLogger(__name__)

ROSTER_S = 30 * 86_400.0
"""For how long a silo stays let in that only rosters named, after the last run that did."""
SWEEP_S = 3600.0
"""How often it is looked for such silos."""
LOOK_S = 0.4
"""How often calls under way are looked at, and whether another process has changed the table."""
ROSTER = "the roster of a run"


@dataclass(slots=True, eq=False)
class Call:
    """A call under way, for as long as the `with` block of it.

    Attributes:
        peer: Who makes it; None: it shows no certificate.
        context: Of grpc.
        task: That answers it.
        others: Those under way with a certificate, this one among them.
        silo_id: For whom it speaks, once that is known.
        cut: Why it is ended.
    """

    peer: Peer | None
    context: Any
    task: asyncio.Task[Any] | None
    others: "set[Call]"
    silo_id: str = ""
    cut: DomoError | None = None
    _token: "Token[Call | None] | None" = None

    def __enter__(self) -> "Call":
        self._token = CALL.set(self)
        if self.peer is not None:
            self.others.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.others.discard(self)
        assert self._token is not None
        CALL.reset(self._token)

    @property
    def address(self) -> str:
        """Where it comes from."""
        return address_of(self.context)

    def uncancel(self) -> None:
        """What was cancelled to be cut goes on to say why."""
        if self.task is not None:
            self.task.uncancel()


CALL: ContextVar[Call | None] = ContextVar("call", default=None)


class Guard:
    """Used from the event loop only.

    Args:
        admissions: Who is let in.
        repeated: Says what is refused.
        say: Records an event: kind, text, `silo_id`.
        rostered: The silos that runs which have not ended name. Blocks.
        clock: Seconds since 1970.

    Attributes:
        heard: Told of the peer of each call.
        on_revoked: Told once of each silo that was revoked, and by whom, where silos show
            certificates.
    """

    def __init__(
        self,
        admissions: Admissions,
        repeated: Repeated,
        say: Callable[..., None],
        rostered: Callable[[], Collection[str]],
        clock: Callable[[], float] = time.time,
    ):
        self.admissions, self.admitted = admissions, Admitted(admissions, clock)
        self._repeated, self._say, self._rostered = repeated, say, rostered
        self._peers = Peers({})
        self.heard: Callable[[str], None] | None = None
        self.on_revoked: Callable[[str, str], Awaitable[None]] | None = None
        self._told: set[str] = set()
        self._calls: set[Call] = set()

    @property
    def rules(self) -> Rules:
        """By which calls are checked."""
        return self.admitted.rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        self.admitted.rules, self._peers = rules, Peers(rules.named or {})

    def call(self, context: Any, enrols: bool = False) -> Call:
        """A call that begins, checked; a `with` block holds it.

        Args:
            context: Of grpc.
            enrols: Whether it may be made with a code.

        Raises:
            AccessError: Whoever makes it may make none.
        """
        if self.heard is not None:
            self.heard(context.peer())
        call = Call(self._peers.of(context), context, asyncio.current_task(), self._calls)
        if call.peer is not None:
            self._check(call, call.peer, enrols)
        elif self.rules.mutual:  # TLS has seen to it that there is none of these
            raise self.refuse(call, AccessError("silos must show a certificate here"))
        return call

    def _check(self, call: Call, peer: Peer, enrols: bool) -> None:
        if peer.invited[0] and not enrols:
            raise self.refuse(
                call, CodeError("this is the certificate of a code: it may enrol, and nothing else")
            )
        if not peer.for_clients:
            raise self.refuse(
                call,
                AccessError(
                    f"the certificate of {peer.shown} does not say that it is a client's: have it "
                    "made with the extended key usage clientAuth"
                ),
            )
        if (why := self.admitted.ended(peer, "") or self.admitted.revoked(peer)) is not None:
            raise self.refuse(call, why)

    async def lets_in(self, silo_id: str, joins: bool) -> None:
        """See that the call under way may speak for a silo, which may be new here.

        One that a run names is let in by that, with any key of the CA, which vouches for the name;
        until `ROSTER_S` after the last such run, as silos stay from one run to the next. The
        coordinator's own CA vouches for whom it has enrolled: there no run lets anybody in.

        Args:
            silo_id: Its name.
            joins: Whether it does now, or only looks.

        Raises:
            AccessError: As `speaks_for`.
            CoordinatorUnavailableError: The database does not answer.
        """
        call = CALL.get()
        peer = call.peer if call is not None else None
        known = peer is None or silo_id not in peer.names or silo_id in self.admitted
        if call is not None and peer is not None and not known:
            await self.changed()  # it may have been admitted just now
            new = silo_id not in self.admitted and not self.admitted.bars(silo_id, peer)
            new = new and not self.rules.enrols
            if new and silo_id in await asyncio.to_thread(self._rostered):
                if not joins:
                    return
                await asyncio.to_thread(self.admissions.admit, silo_id, ROSTER)
                await self.changed()
                text = f"{silo_id} was let in by {ROSTER}, from {call.address}: key {peer.key}"
                self._say(kinds.ADMITTED, text, silo_id=silo_id)
        self.speaks_for(silo_id)

    def speaks_for(self, silo_id: str) -> None:
        """See that the call under way may speak for a silo.

        Raises:
            AccessError: Its certificate names others, or the silo is not let in, or not with it.
        """
        call = CALL.get()
        if call is None or call.peer is None:
            return
        if silo_id not in call.peer.names:
            names = ", ".join(sorted(call.peer.names)) or "nobody"
            text = (
                f"this certificate is for {shown(names)[:200]}, not for {silo_id}; the silo's name "
                "must be in it (subject alternative name, DNS)"
            )
            raise self.refuse(call, AccessError(text))
        if (refusal := self.admitted.refusal(silo_id, call.peer)) is not None:
            raise self.refuse(call, refusal)
        call.silo_id = silo_id

    def refuse(
        self, call: Call, error: DomoError, kind: kinds.EventKind | None = None
    ) -> DomoError:
        """Say that a call was refused, at a bounded rate; returns the error."""
        who = call.peer.shown if call.peer is not None else "somebody"
        text = f"a call of {who} from {call.address} was refused: {error}"
        self._repeated.say(kind or kinds.REFUSED_CALL, text, text)
        return error

    async def changed(self) -> None:
        """The table was changed: what follows from it is done at once.

        Raises:
            CoordinatorUnavailableError: The database does not answer.
        """
        await asyncio.to_thread(self.admitted.load)
        self.look()
        tell, gone = self.on_revoked, self.admitted.gone
        if tell is None or not self.rules.mutual:
            return
        self._told &= gone.keys()
        for silo_id in gone.keys() - self._told:
            self._told.add(silo_id)
            try:
                await tell(silo_id, gone[silo_id])
            except TransportError:
                self._told.discard(silo_id)
                raise

    def sweep(self) -> None:
        """Let out whom no run has named for long. Blocks.

        Raises:
            CoordinatorUnavailableError: The database does not answer.
        """
        self.admissions.let_out(ROSTER, self._rostered(), self.admitted.now() - ROSTER_S)

    def look(self) -> None:
        """End the calls under way whose caller may not go on."""
        for call in list(self._calls):
            if call.peer is None or call.task is None or call.cut is not None:
                continue
            admitted, silo_id, peer = self.admitted, call.silo_id, call.peer
            why = admitted.ended(peer, silo_id)
            why = why or (admitted.refusal(silo_id, peer) if silo_id else admitted.revoked(peer))
            if why is not None:
                call.cut = why if why.retryable else self.refuse(call, why)
                call.task.cancel()

    async def watch(self) -> None:
        """Look again and again, until cancelled: at the calls, and at what other processes did."""
        failing, swept = False, -SWEEP_S
        while True:
            await asyncio.sleep(LOOK_S)
            if not self.rules.mutual:
                continue
            try:
                if time.monotonic() - swept >= SWEEP_S:
                    await asyncio.to_thread(self.sweep)
                    swept = time.monotonic()
                await self.changed()
                failing = False
            except TransportError as error:
                if not failing:
                    log.warning("who is let in is not read anew for now: %s", error)
                failing = True
                self.look()
            except Exception:  # a bug; were this loop to end, nobody would be cut off any more
                if not failing:
                    log.exception("who is let in is not looked at as it should be")
                failing = True
