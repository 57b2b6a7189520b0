"""What an operator reads of `domo-client` where TLS fails, and what the admin sees of it."""

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from domo_proto.channel import TlsFiles
from domo_proto.identities import key_to_pem, new_key
from domo_server.identity.authority import Authority
from tests.support import certificates
from tests.support.live.enrolled import Enrolling, Paper, enrolling
from tests.support.live.federation import BIN

pytestmark = pytest.mark.e2e

WITHIN_S = 5.0
SLOW = 4.0
"""Times as long a machine may take that runs other tests beside."""
MOUNTED = 'mount --bind "$0" /etc/hosts && exec "$@"'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enrolling]:
    with enrolling(tmp_path_factory.mktemp("home")) as it:
        yield it


class Ends:
    """A coordinator that listens on IPv4 only, under an address, or a name that is two.

    Args:
        home: The coordinator.
        hosts: What the silo has as /etc/hosts; None: nothing of its own.
    """

    def __init__(self, home: Enrolling, hosts: Path | None):
        name = "127.0.0.1" if hosts is None else "localhost"
        self.server = f"{name}:{home.coordinator.address.rpartition(':')[2]}"
        self._around = [] if hosts is None else ["unshare", "-m", "sh", "-c", MOUNTED, hosts]

    def works(self) -> bool:
        found = subprocess.run(
            [*self._around, "getent", "ahosts", "localhost"],
            capture_output=True,
            text=True,
            check=False,
        )
        return found.returncode == 0 and {"::1", "127.0.0.1"} <= set(found.stdout.split())

    def says(self, tls: TlsFiles, folder: Path, name: str = "site-a") -> str:
        """The one line that `domo-client` ends with, by itself and soon."""
        began = time.monotonic()
        command = [*self._around, sys.executable, BIN / "domo-client", "--server", self.server]
        command += ["--name", name, "--state-dir", folder / "state", "--tls-ca", tls.ca or ""]
        command += ["--tls-cert", tls.cert or "", "--tls-key", tls.key or ""]
        env = {k: v for k, v in os.environ.items() if not k.startswith("DOMO_")}
        env["DOMO_CLIENT_POLICY"] = "open"
        ended = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        took_s = time.monotonic() - began
        assert ended.returncode == 1, ended
        assert took_s < WITHIN_S * SLOW
        (line,) = ended.stderr.splitlines()
        return line.removeprefix("error: ")


@pytest.fixture(params=["address", "dual-stack"])
def ends(
    request: pytest.FixtureRequest, home: Enrolling, tmp_path_factory: pytest.TempPathFactory
) -> Ends:
    if request.param == "address":
        return Ends(home, None)
    hosts = tmp_path_factory.mktemp("etc") / "hosts"
    hosts.write_text("::1 localhost\n127.0.0.1 localhost\n")
    made = Ends(home, hosts)
    if not made.works():
        pytest.skip("a name with two addresses needs root, and unshare")
    return made


def other_dates(home: Enrolling, days: tuple[float, float], folder: Path) -> TlsFiles:
    """A certificate of the federation's CA that holds at another time."""
    signer = certificates.Authority(folder / "ca", "signer", days=(-30, 30))
    pair = signer.sign("mine", "site-a", days=days)
    (folder / "ca.pem").write_bytes(home.authority.ca_pem)
    return TlsFiles(folder / "ca.pem", pair.cert, pair.key)


def refusals(home: Enrolling) -> float:
    """Handshakes that the coordinator has counted as refused."""
    with urllib.request.urlopen(f"{home.coordinator.url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.search(r'^domo_refused_handshakes_total\{kind="refused"\} (\S+)$', text, re.M)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize(
    ("days", "text"), [((-9, -2), "expired on"), ((2, 9), "is not valid before")]
)
def test_its_own_dates(
    home: Enrolling, ends: Ends, tmp_path: Path, days: tuple[float, float], text: str
) -> None:
    tls = other_dates(home, days, tmp_path)
    assert ends.says(tls, tmp_path).startswith(f"the own certificate {tls.cert} {text} ")


def test_a_name_that_is_not_in_it(home: Enrolling, ends: Ends, tmp_path: Path) -> None:
    tls = home.enrolled("site-n").files(tmp_path / "files")
    text = ends.says(tls, tmp_path)
    assert text.startswith("the own certificate is for site-n, not for site-a; give the --name")


def test_a_certificate_of_another_ca(home: Enrolling, ends: Ends, tmp_path: Path) -> None:
    """Said at both ends: the line, the event with the address, the counter."""
    before = refusals(home)
    tls = other_dates(home, (-1, 9), tmp_path)
    text = ends.says(tls, tmp_path)
    said = f"{ends.server} hangs up on the own certificate {tls.cert}, signed by CN=signer; it must"
    assert text.startswith(said)
    end = time.monotonic() + 10
    while refusals(home) <= before:
        assert time.monotonic() < end
        time.sleep(0.1)
    events = home.coordinator.until("/events?kind=refused-handshake", lambda found: found)
    assert "a TLS handshake with 127.0.0.1 was refused" in events[0]["text"]


def test_a_coordinator_of_another_ca(home: Enrolling, ends: Ends, tmp_path: Path) -> None:
    before = refusals(home)
    paper = home.enrolled("site-a")
    other = certificates.Authority(tmp_path / "other", "other")
    tls = paper._replace(ca=other.cert.read_bytes()).files(tmp_path / "files")
    text = ends.says(tls, tmp_path)
    assert text.startswith(f"the coordinator's certificate is not signed by a CA in {tls.ca}, but ")
    end = time.monotonic() + 10
    while refusals(home) <= before:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_who_was_revoked(home: Enrolling, ends: Ends, tmp_path: Path) -> None:
    name = f"site-{tmp_path.name[-12:].strip('-_')}"
    key = new_key()
    cert = Authority(home.pki).certify(key.public_key(), name, 30)
    pem = cert.public_bytes(Encoding.PEM)
    tls = Paper(key_to_pem(key), pem, home.authority.ca_pem).files(tmp_path / "files")
    home.admissions.admit(name, "a test")
    home.admissions.revoke(name, "anna")
    text = ends.says(tls, tmp_path, name)
    assert text.startswith(f"{name} was revoked by anna at ")
    events = home.coordinator.until("/events?kind=refused-call", lambda found: found)
    assert any(name in event["text"] and "127.0.0.1" in event["text"] for event in events)
