import itertools
from pathlib import Path

import pytest

from domo_client.rpc import connection as line
from domo_client.rpc.connection import Line
from domo_client.state.folder import SiloState


def test_pauses_grow_until_a_transfer_gets_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "JITTER_S", 0.0)
    state = SiloState(tmp_path / "state")
    it = Line("127.0.0.1:1", "a", state)
    pause = it._pause()
    assert [pause(None) for _ in range(4)] == [0.2, 0.4, 0.8, 1.6]
    it.advanced += 7
    assert [pause(None) for _ in range(2)] == [0.2, 0.4]
    assert list(itertools.islice(iter(lambda: pause(None), 0), 5000))[-1] == line.LONGEST_PAUSE_S
    it.close()
    state.close()


def test_pauses_differ(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    it = Line("127.0.0.1:1", "a", state)
    first = {it._pause()(None) for _ in range(20)}
    assert len(first) == 20
    assert all(0.2 <= p <= 0.2 + line.JITTER_S for p in first)
    it.close()
    state.close()
