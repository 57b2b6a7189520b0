"""Who is let in, by name and key, and the codes that let in, once each.

Written by the coordinator and by commands beside it (`domo-server enroll`, `revoke`): every change
of an admission gives its row a number by chance, so that the sum of them says whether anything is
new. A number that counts up would be given twice by two that change the table at once, and one of
the changes, a revocation perhaps, would not be seen.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, delete, func, insert, select, update

from domo_server.store.store import Store, now_text, time_text
from domo_server.store.tables import admissions, codes

State = Literal["invited", "active", "revoked"]


@dataclass(frozen=True, slots=True)
class AdmissionRow:
    """What is known of one name.

    Attributes:
        silo_id: The name.
        key: The fingerprint that it is bound to; None: any certificate of the CA for this name.
        state: `invited`: it has a code and no certificate yet.
        until: When the newest certificate that was made here ends, seconds since 1970; None: none.
        days: For how long certificates are made; None: none are.
        at: When this was changed.
        by_whom: Who did.
        version: Another one after each change.
    """

    silo_id: str
    key: str | None
    state: State
    until: float | None
    days: float | None
    at: str
    by_whom: str
    version: int


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One code.

    Attributes:
        nonce: In its certificate.
        silo_id: The name that it lets in.
        until: Until when, seconds since 1970.
        days: For how long the certificate will be valid.
        made_at: When it was made.
        by_whom: Who did.
        used_at: When it was used; None: not yet.
        key: By which key.
        certificate: What that was given (PEM).
    """

    nonce: str
    silo_id: str
    until: float
    days: float
    made_at: str
    by_whom: str
    used_at: str | None
    key: str | None
    certificate: str | None


class Admissions:
    """The statements. They block.

    Args:
        store: Whose database it is.
    """

    def __init__(self, store: Store):
        self._store = store

    def version(self) -> int:
        """Another one after each change, whoever made it; 0: there is no row."""
        with self._store.transaction() as c:
            return int(c.execute(select(func.sum(admissions.c.version))).scalar() or 0)

    def all(self) -> list[AdmissionRow]:
        """All names, in order."""
        with self._store.transaction() as c:
            rows = c.execute(select(admissions).order_by(admissions.c.silo_id)).mappings()
            return [AdmissionRow(**row) for row in rows]

    def of(self, silo_id: str) -> AdmissionRow | None:
        """One name."""
        with self._store.transaction() as c:
            where = admissions.c.silo_id == silo_id
            row = c.execute(select(admissions).where(where)).mappings().first()
            return AdmissionRow(**row) if row else None

    def admit(
        self,
        silo_id: str,
        by_whom: str,
        key: str | None = None,
        until: float | None = None,
        days: float | None = None,
    ) -> None:
        """Let a name in; a code that it has not used is void, as it has what it needs.

        Without `days`, those of a name that certificates were made for stay: they are renewed.
        """
        made = {} if days is None else {"until": until, "days": days}
        with self._store.transaction() as c:
            _void(c, silo_id)
            _put(c, silo_id, by_whom, state="active", key=key, **made)

    def renewed(self, silo_id: str, key: str, until: float) -> bool:
        """A newer certificate for the same key; False: the name is not let in with that key now."""
        with self._store.transaction() as c:
            a = admissions.c
            where = (a.silo_id == silo_id) & (a.state == "active")
            where &= (a.key == key) | a.key.is_(None)
            changed = c.execute(
                update(admissions).where(where).values(key=key, until=until, version=_new())
            )
            return changed.rowcount == 1

    def revoke(self, silo_id: str, by_whom: str) -> None:
        """Let a name in no more, with any key, nor by a code that it has."""
        with self._store.transaction() as c:
            _void(c, silo_id)
            c.execute(delete(codes).where(codes.c.silo_id == silo_id))
            _put(c, silo_id, by_whom, state="revoked")

    def let_out(self, by_whom: str, keep: Collection[str], before: float) -> None:
        """Forget names that were let in by something that does not name them any more.

        Args:
            by_whom: Let them in.
            keep: Names that it names now; these count as let in anew.
            before: Others go that were named last before then, seconds since 1970.
        """
        a = admissions.c
        theirs = (a.by_whom == by_whom) & (a.state == "active")
        with self._store.transaction() as c:
            for name in sorted(keep):
                c.execute(
                    update(admissions).where(theirs & (a.silo_id == name)).values(at=now_text())
                )
            c.execute(delete(admissions).where(theirs & (a.at < time_text(before))))

    def invite(self, silo_id: str, by_whom: str, nonce: str, until: float, days: float) -> None:
        """Write down a code; one that was not used before is void.

        A name that is let in stays so with its old key until the code is used.
        """
        with self._store.transaction() as c:
            _void(c, silo_id)
            c.execute(
                insert(codes).values(
                    nonce=nonce,
                    silo_id=silo_id,
                    until=until,
                    days=days,
                    made_at=now_text(),
                    by_whom=by_whom,
                )
            )
            active = (admissions.c.silo_id == silo_id) & (admissions.c.state == "active")
            if c.execute(select(admissions.c.silo_id).where(active)).first() is None:
                _put(c, silo_id, by_whom, state="invited", key=None, until=None, days=days)

    def code(self, nonce: str) -> CodeRow | None:
        """One code."""
        with self._store.transaction() as c:
            row = c.execute(select(codes).where(codes.c.nonce == nonce)).mappings().first()
            return CodeRow(**row) if row else None

    def open_codes(self) -> list[CodeRow]:
        """Codes that were not used, by name."""
        with self._store.transaction() as c:
            where = codes.c.used_at.is_(None)
            rows = c.execute(select(codes).where(where).order_by(codes.c.silo_id)).mappings()
            return [CodeRow(**row) for row in rows]

    def use(self, code: CodeRow, key: str, until: float, certificate: str) -> bool:
        """Use a code up and let its name in with a key; False: another one was quicker."""
        with self._store.transaction() as c:
            where = (codes.c.nonce == code.nonce) & codes.c.used_at.is_(None)
            taken = {"used_at": now_text(), "key": key, "certificate": certificate}
            if c.execute(update(codes).where(where).values(**taken)).rowcount != 1:
                return False
            values = {"state": "active", "key": key, "until": until, "days": code.days}
            _put(c, code.silo_id, code.by_whom, **values)
            return True


def _void(c: Connection, silo_id: str) -> None:
    c.execute(delete(codes).where((codes.c.silo_id == silo_id) & codes.c.used_at.is_(None)))


def _new() -> int:
    return 1 + secrets.randbelow(2**31 - 1)


def _put(c: Connection, silo_id: str, by_whom: str, **values: object) -> None:
    values |= {"by_whom": by_whom, "at": now_text(), "version": _new()}
    where = admissions.c.silo_id == silo_id
    if not c.execute(update(admissions).where(where).values(**values)).rowcount:
        c.execute(insert(admissions).values(silo_id=silo_id, **values))
