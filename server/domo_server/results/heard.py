"""What silos measure: whether it can be added up, what is said of it once, where it is kept."""

from collections.abc import Collection, Iterable, Sequence

from domo.errors import ProtocolError
from domo.metrics.names import MOST_METRICS
from domo.metrics.numbers import notes_on
from domo.metrics.table import Measured, Sum, Table, why_apart
from domo_server.store.measured import TableRow, table_row
from domo_server.store.store import Store

MOST_NAMES = 4 * MOST_METRICS
"""Of one silo's metrics in all tests of a run together."""


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

    def recall(self, sums: Iterable[tuple[str, str]], tables: Iterable[TableRow]) -> None:
        """Know what silos measured before a restart: silo and metric of sums, tables."""
        for silo_id, metric in sums:
            self._of.setdefault(silo_id, {})[metric] = None
        for table in tables:
            self._of.setdefault(table.silo_id, {})[table.metric] = table.emptied()
        self._names |= {name for mine in self._of.values() for name in mine}

    def check(self, silo_id: str, measured: Measured) -> None:
        """See that a silo's numbers can be added to those of others.

        Raises:
            ProtocolError: They cannot: other classes, a sum where others have a table; or their
                names are always others.
        """
        for name, one in measured.items():
            if (why := self._why_unlike(silo_id, name, one)) is not None:
                raise ProtocolError(f"metric {name!r} of {silo_id}: {why}")
        if len(self._of.get(silo_id, {}).keys() | measured.keys()) > MOST_NAMES:
            raise ProtocolError(f"{silo_id} gives its metrics more than {MOST_NAMES} names in all")

    def _why_unlike(self, silo_id: str, name: str, one: Sum | Table) -> str | None:
        others = (
            mine[name]
            for other, mine in self._of.items()
            if name in mine and other != silo_id and other not in self._dropped
        )
        known = next(others, one)  # all the others are alike
        if isinstance(one, Table):
            sums = "it is a sum at other silos, and a table here"
            return why_apart(known, one) if isinstance(known, Table) else sums
        return "it is a table at other silos, and a sum here" if isinstance(known, Table) else None

    def unlike(self, measured: Measured) -> list[tuple[str, str]]:
        """Silo and metric of tables of silos that are left out, and that these cannot go with."""
        return [
            (silo_id, name)
            for silo_id in self._dropped
            for name, known in self._of.get(silo_id, {}).items()
            if isinstance(known, Table)
            and isinstance(one := measured.get(name), Table)
            and why_apart(known, one) is not None
        ]

    def add(
        self,
        silo_id: str,
        measured: Measured,
        num_tests: int,
        unlike: Sequence[tuple[str, str]] = (),
    ) -> list[str]:
        """Know a silo's metrics; what should be said of those that are new.

        Args:
            silo_id: The silo.
            measured: By it.
            num_tests: Samples that it enrolled with.
            unlike: Which go for them.
        """
        for other, name in unlike:
            del self._of[other][name]
        new = sorted(measured.keys() - self._names)
        self._names |= measured.keys()
        mine = self._of.setdefault(silo_id, {})
        for name, one in measured.items():
            mine[name] = one.emptied() if isinstance(one, Table) else None
        notes = notes_on(measured, [float(num_tests)])
        return [notes[name] for name in new if name in notes]


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
