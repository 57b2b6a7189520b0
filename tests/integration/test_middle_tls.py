"""TLS between a silo and its coordinator goes wrong for a while: what is said, and who goes on."""

import contextlib
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from domo_client.rpc.control import Control
from domo_client.rpc.session import Session
from domo_proto.channel import TlsFiles
from tests.support.certificates import Authority, Pair
from tests.support.faults.middle import Answer, Box, box, tries_again_soon
from tests.support.live.coordinator import Coordinator, coordinator

ALERT = b"\x15\x03\x03\x00\x02\x02\x28"
ROWS = {
    "plaintext": "it does not speak TLS",
    "stranger": "the coordinator's certificate is not signed by a CA in",
    "expired": "the coordinator's certificate expired on",
    "elsewhere": "the coordinator's certificate is for elsewhere.example, not for 127.0.0.1",
    "alert": "the TLS handshake failed",
}


class Ends:
    """A coordinator with its CA, and others that answer in its place."""

    def __init__(self, folder: Path, until: ExitStack):
        ca, stranger = Authority(folder / "ours", "ca"), Authority(folder / "theirs", "stranger")
        names = ("localhost", "127.0.0.1")
        self.ca = ca.cert

        def serve(name: str, pair: Pair | None) -> Coordinator:
            tls = {} if pair is None else {"tls": {"cert": pair.cert, "key": pair.key}}
            return until.enter_context(coordinator(folder / name, long_poll_s=0.2, **tls))

        self.own = serve("own", ca.sign("own", *names))
        self.others = {
            "plaintext": serve("plaintext", None),
            "stranger": serve("stranger", stranger.sign("own", *names)),
            "expired": serve("expired", ca.sign("old", *names, days=(-9, -2))),
            "elsewhere": serve("elsewhere", ca.sign("other", "elsewhere.example")),
        }


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    with ExitStack() as until:
        yield Ends(tmp_path_factory.mktemp("tls"), until)


def _stand(between: Box, ends: Ends, name: str) -> None:
    if name == "alert":
        between.answers(Answer(at_once=ALERT))
    else:
        between.passes(ends.others[name].address)


@pytest.mark.parametrize("name", ROWS)
def test_it_passes(ends: Ends, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tries_again_soon(monkeypatch)
    said: list[str] = []
    with box(ends.own.address) as between, ThreadPoolExecutor(1) as pool:
        tls = TlsFiles(ca=ends.ca)
        session = Session(between.address, f"site-{name}", "i", tls=tls, on_trouble=said.append)
        with contextlib.closing(session):
            session.join()
            _stand(between, ends, name)
            waiting = pool.submit(Control(session).wait_for_run)
            end = time.monotonic() + 30
            while not any(ROWS[name] in text for text in said):
                assert time.monotonic() < end, said
                assert not waiting.done()
                time.sleep(0.02)
            between.passes(ends.own.address)
            assert waiting.result(60) is None
    text = f"^(no coordinator answers at {between.address} \\()?{re.escape(ROWS[name])}"
    assert re.match(text, next(one for one in said if ROWS[name] in one))
