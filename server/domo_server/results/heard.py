"""What silos measure: whether it can be added up, what is said of it once, where it is kept."""

from collections.abc import Sequence

from domo.errors import ProtocolError
from domo.metrics.numbers import notes_on
from domo.metrics.table import Measured, Sum, Table, why_apart
from domo_server.store.measured import EvaluationRow, TableRow, table_row
from domo_server.store.store import Store


class Heard:
    """The metrics of one run so far, by name."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._tables: dict[str, Table] = {}

    def recall(self, sums: Sequence[EvaluationRow], tables: Sequence[TableRow]) -> None:
        """Know what silos measured before a restart."""
        self._names |= {row.metric for row in sums} | {row.metric for row in tables}
        self._tables |= {row.metric: row.emptied() for row in tables}

    def check(self, silo_id: str, measured: Measured) -> None:
        """See that a silo's numbers can be added to those of others.

        Raises:
            ProtocolError: They cannot: other classes, a sum where others have a table.
        """
        for name, one in measured.items():
            if (why := self._why_unlike(name, one)) is not None:
                raise ProtocolError(f"metric {name!r} of {silo_id}: {why}")

    def _why_unlike(self, name: str, one: Sum | Table) -> str | None:
        known = self._tables.get(name)
        if isinstance(one, Table):
            if known is not None:
                return why_apart(known, one)
            return "it is a sum at other silos, and a table here" if name in self._names else None
        return None if known is None else "it is a table at other silos, and a sum here"

    def add(self, measured: Measured, num_tests: int) -> list[str]:
        """Know a silo's metrics; what should be said of those that are new.

        Args:
            measured: By the silo.
            num_tests: Samples that it enrolled with.
        """
        new = sorted(measured.keys() - self._names)
        self._names |= measured.keys()
        for name in new:
            if isinstance(one := measured[name], Table):
                self._tables[name] = one.emptied()
        notes = notes_on(measured, [float(num_tests)])
        return [notes[name] for name in new if name in notes]


def keep(
    store: Store,
    run_id: str,
    model_index: int,
    silo_id: str,
    measured: Measured,
    tested: str | None,
) -> None:
    """Record a silo's numbers of x_i; blocks."""
    sums = {name: one for name, one in measured.items() if isinstance(one, Sum)}
    tables = [
        table_row(model_index, silo_id, name, one)
        for name, one in measured.items()
        if isinstance(one, Table)
    ]
    store.add_evaluation(run_id, model_index, silo_id, sums, tested, tables)
