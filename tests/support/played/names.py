"""Silos whose names a locale orders otherwise than byte by byte, in a database."""

from domo_server.store.rows import AcceptedUpdate, Enrolment
from domo_server.store.store import Store

NAMES = ["-a", "10", "2", "A", "Z", "_", "a", "a-b", "a.b", "a_b", "ab"]
METRICS = ["Z", "_", "a"]


def fill(store: Store) -> None:
    """Rows of these silos, in another order."""
    for name in sorted(NAMES, key=lambda s: s.lower()[::-1]):
        store.enroll("1-r", name, Enrolment("trainer", 1, 1))
        store.accept_update("1-r", 0, AcceptedUpdate(name, "1", [], 1, 1.0, {}))
        store.add_evaluation("1-r", 0, name, dict.fromkeys(METRICS[::-1], (1, 1)))
        store.save_silo(name, "i", "trainer", "cpu", "1")


def orders(store: Store) -> list[list[str]]:
    """The silos as each query gives them, and the metrics of one of them."""
    numbers = store.evaluations_of("1-r")
    return [
        list(store.enrolled("1-r")),
        [u.silo_id for u in store.updates_of("1-r", 0)],
        [e.silo_id for e in numbers if e.metric == "a"],
        [s.silo_id for s in store.all_silos()],
        [e.metric for e in numbers[: len(METRICS)]],
    ]
