"""Rows of the database as REST shows them."""

from domo_server.store.rows import Participant, RoundRecord
from domo_server.view.rows import round_record


def test_an_update_is_as_large_as_its_vectors() -> None:
    vectors = [(1, 400), (3, 80)]
    part = Participant("site-a", 1.0, 12, 3.2, 0.5, "digest", vectors)
    row = RoundRecord(0, [part], {}, local_lr=0.1, reference_steps=12)
    assert [p.update_bytes for p in round_record(row).participants] == [480]
