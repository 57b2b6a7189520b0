"""What silos measure: whether it can be added up, what is said of it once, where it is kept."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from domo.errors import ProtocolError
from domo.metrics.names import MOST_METRICS
from domo.metrics.numbers import notes_on
from domo.metrics.table import Measured, Sum, Table, why_apart
from domo_server.store.measured import TableRow, table_row
from domo_server.store.store import Store

MOST_NAMES = 4 * MOST_METRICS
"""Of one silo's metrics in all tests of a run together."""


class Apart(NamedTuple):
    """Why a number cannot be added to those of other silos.

    Attributes:
        why: In words that name no silo.
        others: They.
    """

    why: str
    others: list[str]


class Heard:
    """The metrics of one run so far.

    A silo is compared with others that are in the run; one that an admin has left out is no
    measure for anybody.

    Args:
        dropped: Silos that an admin has left out.
    """

    def __init__(self, dropped: Collection[str]):
        self._dropped = dropped
        self._of: dict[str, dict[str, Table | None]] = {}
        """By silo and metric: a table like the silo's that counts nothing; None: it gives a sum."""
        self._names: set[str] = set()
        self._out: set[tuple[str, str]] = set()
        """Silo and metric of what is not taken."""

    def recall(self, sums: Iterable[tuple[str, str]], tables: Iterable[TableRow]) -> None:
        """Know what silos measured before a restart: silo and metric of sums, tables."""
        for silo_id, metric in sums:
            self._of.setdefault(silo_id, {})[metric] = None
        for table in tables:
            self._of.setdefault(table.silo_id, {})[table.metric] = table.emptied()
        self._names |= {name for mine in self._of.values() for name in mine}

    def check(self, silo_id: str, measured: Measured) -> None:
        """See that a silo's numbers do not always have other names.

        Raises:
            ProtocolError: They have.
        """
        if len(self._of.get(silo_id, {}).keys() | measured.keys()) > MOST_NAMES:
            raise ProtocolError(f"{silo_id} gives its metrics more than {MOST_NAMES} names in all")

    def apart(self, silo_id: str, measured: Measured) -> dict[str, Apart]:
        """Which of a silo's numbers cannot be added to those of others, by name.

        Most silos are the measure; of as many, those that came first. So one silo that gives a
        name another meaning costs the others at most that number, and never a round.
        """
        found = {}
        for name, one in measured.items():
            others = {
                other: mine[name]
                for other, mine in self._of.items()
                if name in mine and other != silo_id and other not in self._dropped
            }
            whys = {other: _why_unlike(known, one) for other, known in others.items()}
            against = {other: why for other, why in whys.items() if why is not None}
            mine = {silo_id, *(others.keys() - against.keys())}
            theirs = max((self._like(o, name, against) for o in against), key=len, default=set())
            first = all((s, name) not in self._out for s in theirs)
            if len(mine) < len(theirs) or (len(mine) == len(theirs) and first):
                found[name] = Apart(against[min(theirs)], sorted(theirs))
        return found

    def _like(self, silo_id: str, name: str, among: Iterable[str]) -> set[str]:
        """Those silos of some whose numbers of a name can be added to those of one of them."""
        one = self._of[silo_id][name]
        return {o for o in among if _why_unlike(self._of[o][name], one) is None}

    def unlike(self, silo_id: str, measured: Measured) -> list[tuple[str, str]]:
        """Silo and metric of tables that these cannot go with: of few, or of who is left out."""
        return [
            (other, name)
            for other, mine in self._of.items()
            for name, known in mine.items()
            if (other in self._dropped or (other, name) not in self._out)
            and other != silo_id
            and isinstance(known, Table)
            and isinstance(one := measured.get(name), Table)
            and why_apart(known, one) is not None
        ]

    def add(
        self,
        silo_id: str,
        measured: Measured,
        num_tests: int,
        unlike: Sequence[tuple[str, str]] = (),
        out: Collection[str] = (),
    ) -> list[str]:
        """Know a silo's metrics; what should be said of those that are new.

        Args:
            silo_id: The silo.
            measured: By it.
            num_tests: Samples that it enrolled with.
            unlike: Which go for them.
            out: Its metrics that are not taken.
        """
        for other, name in unlike:
            if other in self._dropped:
                del self._of[other][name]
            else:
                self._out.add((other, name))
        self._out -= {(silo_id, name) for name in measured}
        self._out |= {(silo_id, name) for name in out}
        new = sorted(measured.keys() - self._names)
        self._names |= measured.keys()
        mine = self._of.setdefault(silo_id, {})
        for name, one in measured.items():
            mine[name] = one.emptied() if isinstance(one, Table) else None
        notes = notes_on(
            {k: one for k, one in measured.items() if k not in out}, [float(num_tests)]
        )
        return [notes[name] for name in new if name in notes]


def _why_unlike(known: Table | None, one: Sum | Table | None) -> str | None:
    """Why a number cannot be added to another silo's (None: a sum), in words; None: it can."""
    if isinstance(one, Table):
        sums = "it is a sum at other silos, and a table here"
        return why_apart(known, one) if isinstance(known, Table) else sums
    return "it is a table at other silos, and a sum here" if isinstance(known, Table) else None


def keep(
    store: Store,
    run_id: str,
    model_index: int,
    silo_id: str,
    measured: Measured,
    tested: str | None,
    unlike: Sequence[tuple[str, str]] = (),
) -> None:
    """Record a silo's numbers of x_i; blocks."""
    sums = {name: one for name, one in measured.items() if isinstance(one, Sum)}
    tables = [
        table_row(model_index, silo_id, name, one)
        for name, one in measured.items()
        if isinstance(one, Table)
    ]
    store.add_evaluation(run_id, model_index, silo_id, sums, tested, tables, unlike)
