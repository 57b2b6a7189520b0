"""Files of a silo's TLS change while it works: new calls go over a new channel, nothing is lost."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import domo_client
from domo_client.identity import renewal
from domo_client.loop.silo import Silo
from domo_client.rpc.line import Line
from domo_proto.channel import TlsFiles
from domo_server.silos.session import Session
from domo_server.silos.sessions import Sessions
from tests.support.certificates import Authority, Pair
from tests.support.live.coordinator import Coordinator, coordinator, own_run


class Site(NamedTuple):
    """A coordinator, and the files of a silo."""

    ca: Authority
    server: Coordinator
    tls: TlsFiles
    told: list[str]

    def put(self, pair: Pair) -> None:
        """Write new files over the old ones, one after the other, as a PKI does."""
        assert self.tls.cert is not None
        assert self.tls.key is not None
        shutil.copy(pair.key, self.tls.key)
        time.sleep(0.05)
        shutil.copy(pair.cert, self.tls.cert)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(renewal, "LOOK_S", 0.1)
    ca = Authority(tmp_path / "pki", "ca")
    pair, first = ca.sign("coordinator", "127.0.0.1"), ca.sign("first", "site-a")
    home = tmp_path / "files"
    home.mkdir()
    tls = TlsFiles(ca.cert, home / "silo.pem", home / "silo.key")
    run = own_run(tmp_path, nn.Linear(2, 1), num_rounds=4)
    files = {"cert": pair.cert, "key": pair.key, "client_ca": ca.cert}
    with coordinator(tmp_path, run, tls=files) as server:
        server.admit("site-a")
        made = Site(ca, server, tls, [])
        made.put(first)
        yield made


def join(site: Site, folder: Path) -> Silo:
    return domo_client.connect(
        site.server.address,
        "site-a",
        state_dir=folder / "state",
        tls=site.tls,
        on_stuck=site.told.append,
    )


def until(done: Callable[[], Any], within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def line_of(silo: Silo) -> Line:
    return silo.connection.session.lines._now


def test_a_run_goes_on_over_a_new_channel(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is another one in the middle of a run; the stream moves without a gap."""
    gaps: list[str] = []

    def broke(self: Sessions, session: Session) -> None:
        if not session.attending:
            gaps.append(session.silo_id)

    monkeypatch.setattr(Sessions, "broke", broke)
    module = nn.Linear(2, 1)
    with join(site, tmp_path) as silo:
        lines = {id(line_of(silo))}
        for rnd in silo.rounds(module, eval_samples=0):
            if rnd.round_index in (1, 2):
                before = line_of(silo)
                site.put(site.ca.sign(f"next-{rnd.round_index}", "site-a"))
                until(lambda before=before: line_of(silo) is not before)
            lines.add(id(line_of(silo)))
            opt = rnd.optimizer()
            for inputs in rnd.batches([torch.ones(2)]):
                module(inputs).sum().backward()
                opt.step()
        assert silo.outcome is not None
        assert silo.outcome.state == "FINISHED"
        assert len(lines) == 3
        assert gaps == []
        assert silo.connection.counts.joins == 1
    assert site.told == []


def test_files_that_will_not_do_are_said_once_and_not_taken(site: Site, tmp_path: Path) -> None:
    with join(site, tmp_path) as silo:
        before = line_of(silo)
        site.put(site.ca.sign("other", "site-b"))
        until(lambda: any("for site-b, not for site-a" in text for text in site.told))
        time.sleep(0.3)
        said = [text for text in site.told if "for site-b" in text]
        assert len(said) == 1
        assert said[0].endswith("The files that were good before are used on")
        assert line_of(silo) is before
        site.put(site.ca.sign("again", "site-a"))
        until(lambda: line_of(silo) is not before)


def test_files_of_another_ca_leave_the_channel_that_works(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domo_client.rpc.line.READY_S", 0.5)
    stranger = Authority(tmp_path / "stranger", "stranger")
    with join(site, tmp_path) as silo:
        before = line_of(silo)
        site.put(stranger.sign("site-a", "site-a"))
        until(lambda: any("hangs up on the own certificate" in text for text in site.told))
        assert line_of(silo) is before
        assert silo.connection.control.wait_for_run() is not None


def test_an_old_channel_ends_with_its_last_call(site: Site) -> None:
    line = Line(site.server.address, site.tls)
    with line.begin():
        line.retire()
        assert line.is_ready(10)
    with pytest.raises(ValueError, match=r"(?i)channel"):
        line.fetch(b"")
