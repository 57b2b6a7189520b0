"""`domo-client enroll` as an operator types it: files, texts, what a fault leaves, what is next."""

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from domo_client.identity import kept
from domo_client.loop.connect import connect
from domo_proto.certificates import read_certificates
from domo_proto.enrolment import Bundle, Code, make_bundle, make_code
from domo_proto.identities import ca_key, dns_names, fingerprint, read_request
from domo_server.identity.authority import Authority
from tests.support.live.enrolled import Enrolling, enrolling
from tests.support.live.federation import BIN

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enrolling]:
    with enrolling(tmp_path_factory.mktemp("home")) as it:
        yield it


class Site:
    """A user of a machine, with commands."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.silos = folder / "state" / "domo" / "silos"

    def client(self, *args: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("DOMO_")}
        env |= {
            "DOMO_CLIENT_POLICY": "open",
            "XDG_STATE_HOME": str(self.folder / "state"),
            "HOME": str(self.folder),
        }
        return subprocess.run(
            [sys.executable, BIN / "domo-client", *args],
            env=env,
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def fails(self, *args: str | Path, code: int = 1) -> str:
        ended = self.client(*args)
        assert ended.returncode == code, ended
        assert ended.stdout == ""
        (line,) = ended.stderr.splitlines()
        return line.removeprefix("error: ")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def line_of(code: Code) -> str:
    return make_code(code)


def test_one_line_and_nothing_else_is_needed(home: Enrolling, site: Site) -> None:
    code = home.code("site-a")
    done = site.client("enroll", "-", given=f"{line_of(code)}\n")
    assert done.returncode == 0, done.stderr
    folder = site.silos / "site-a"
    files = [folder / "client.toml", *sorted((folder / "identity").iterdir())]
    assert [path.name for path in files] == ["client.toml", "ca.pem", "silo.key", "silo.pem"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((folder / "identity").stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["client.toml", "identity"]
    cert = read_certificates(folder / "identity/silo.pem", "it")[0]
    assert dns_names(cert) == ("site-a",)
    said = done.stdout.splitlines()
    assert said[0].startswith(f"site-a is enrolled with {home.coordinator.address}, until ")
    assert fingerprint(cert) in said[1]
    assert fingerprint(cert) in home.events("admitted")[0]
    assert f"CA has the key {ca_key(home.authority.ca_pem)}: compare it" in said[2]
    assert said[3] == "next: domo-client --data DIR"
    report = site.client("doctor", "--json")
    states = {check["check"]: check for check in json.loads(report.stdout)["checks"]}
    for check in ("flags", "TLS files", "gRPC", "server certificate", "protocol"):
        assert states[check]["state"] == "ok", states[check]
    key = (folder / "identity/silo.key").read_bytes()
    text = site.fails("enroll", line_of(home.code("site-a")))
    assert text.startswith(f"site-a is enrolled with {home.coordinator.address} already, until ")
    assert text.endswith("--force takes another certificate instead")
    assert (folder / "identity/silo.key").read_bytes() == key
    assert site.client("enroll", line_of(home.code("site-a")), "--force").returncode == 0
    assert (folder / "identity/silo.key").read_bytes() != key
    done = site.client("enroll", line_of(home.code("site-b")))
    assert done.stdout.splitlines()[3] == "next: domo-client --name site-b --data DIR"
    assert site.fails(code=2) == "2 silos are enrolled here: give --name site-a or site-b"


def test_a_code_that_is_not_good_has_its_text_and_leaves_no_identity(
    home: Enrolling, site: Site, tmp_path: Path
) -> None:
    """Used, late, of another CA, of another name, cut: five texts."""
    used = line_of(home.code("site-u"))
    assert site.client("enroll", used, "--state-dir", tmp_path / "first").returncode == 0
    late = line_of(home.code("site-l", valid_s=-1))
    with enrolling(tmp_path / "other") as other:
        foreign = other.code("site-f")._replace(address=home.coordinator.address)
        theirs = foreign._replace(ca_pem=home.authority.ca_pem)
        texts = [site.fails("enroll", line_of(code)) for code in (foreign, theirs)]
    assert "the coordinator's certificate is not signed by a CA in" in texts[0]
    assert texts[1].startswith(
        f"{home.coordinator.address} hangs up on this code: it was made by another coordinator"
    )
    assert "was used already" in site.fails("enroll", used)
    assert "expired at" in site.fails("enroll", late)
    other_name = site.fails("enroll", late, "--name", "site-x", code=2)
    assert other_name == "this is for site-l, and --name says site-x"
    assert "this code was cut" in site.fails("enroll", late[:-40], code=2)
    assert not list(site.silos.glob("*/client.toml"))
    assert not list(site.silos.glob("*/identity"))
    refused = home.coordinator.until("/events?kind=refused-handshake", lambda found: found)
    assert "127.0.0.1" in refused[0]["text"]


def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_key(
    home: Enrolling, site: Site
) -> None:
    code = home.code("site-r")
    away = line_of(code._replace(address="127.0.0.1:1"))
    assert "no coordinator answers at 127.0.0.1:1" in site.fails("enroll", away)
    folder = site.silos / "site-r"
    key = (folder / "identity.new/silo.key").read_bytes()
    assert stat.S_IMODE((folder / "identity.new/silo.key").stat().st_mode) == 0o600
    for _ in range(2):  # the second: all but the last file was there
        assert site.client("enroll", line_of(code)).returncode == 0
        assert (folder / "identity/silo.key").read_bytes() == key
        (folder / "client.toml").unlink()


def test_a_request_and_its_answer(home: Enrolling, site: Site, tmp_path: Path) -> None:
    done = site.client("enroll", "--request", "site-q.csr", "--name", "site-q")
    assert done.returncode == 0, done.stderr
    asked = read_request((tmp_path / "site-q.csr").read_bytes())
    assert asked.names == ("site-q",)
    assert f"is {asked.fingerprint}" in done.stdout.splitlines()[0]
    assert "  domo-server sign site-q.csr" in done.stdout.splitlines()
    assert "domo-client enroll --install ANSWER" in done.stdout
    cert = Authority(home.pki).certify(asked.csr.public_key(), "site-q", 30)
    ca = home.authority.ca_pem
    answer = make_bundle(Bundle(home.coordinator.address, cert.public_bytes(Encoding.PEM), ca))
    (tmp_path / "answer").write_bytes(answer)
    done = site.client("enroll", "--install", "answer")
    assert done.returncode == 0, done.stderr
    assert kept.read(site.silos / "site-q") is not None
    text = site.fails("enroll", "--install", "answer", "--state-dir", "elsewhere", code=2)
    assert "no request of site-q was made in elsewhere" in text


def test_an_enrolled_silo_renews_while_it_runs(home: Enrolling, site: Site) -> None:
    """Certificates of sixteen seconds; the stream and the session stay."""
    second = 1 / 86_400
    assert site.client("enroll", line_of(home.code("site-s", days=16 * second))).returncode == 0
    found = kept.read(site.silos / "site-s")
    assert found is not None
    assert found.tls.cert is not None
    first = found.tls.cert.read_bytes()
    with connect(found.server, "site-s", state_dir=found.folder, tls=found.tls) as silo:
        end = time.monotonic() + 60
        while len(home.events("renewed")) < 2:
            assert time.monotonic() < end, "it was not renewed"
            assert silo.connection.control.wait_for_run() is None
            assert silo.connection.counts.network == ""
            time.sleep(0.5)
        assert silo.connection.counts.joins == 1
    assert found.tls.cert.read_bytes() != first
    assert stat.S_IMODE(found.tls.cert.stat().st_mode) == 0o600
    assert silo.connection.counts.network == ""
