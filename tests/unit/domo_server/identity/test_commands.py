"""`domo-server enroll`, `sign`, `admit`, `revoke`, `silos`: beside a coordinator, or before one."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from cryptography import x509
from typer.testing import CliRunner

from domo.errors import DomoError
from domo_proto.enrolment import read_bundle, read_code
from domo_proto.identities import (
    ca_key,
    dns_names,
    fingerprint,
    make_request,
    new_key,
    read_request,
)
from domo_server import cli
from domo_server.store.database import open_beside
from domo_server.store.store import Store

runner = CliRunner()


class Home:
    def __init__(self, folder: Path):
        self.state = folder / "state"

    def __call__(self, *words: str | Path) -> Result:
        return runner.invoke(cli.app, [*map(str, words), "--state-dir", str(self.state)])

    def fails(self, *words: str | Path) -> str:
        result = self(*words)
        assert isinstance(result.exception, DomoError), result.output
        assert result.stdout == ""
        return str(result.exception)

    def rows(self) -> dict[str, dict[str, object]]:
        return {row["silo_id"]: row for row in json.loads(self("silos", "--json").stdout)}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    result = made("pki", "init", "--host", "fl.example.org")
    assert result.exit_code == 0
    return made


def test_init_says_what_comes_next(tmp_path: Path) -> None:
    home = Home(tmp_path)
    said = home("pki", "init", "--host", "fl.example.org", "--listen", "0.0.0.0:7000").stdout
    assert "silos will dial fl.example.org:7000" in said
    assert ca_key((home.state / "pki" / "ca.pem").read_bytes()) in said
    assert f"next: domo-server --listen 0.0.0.0:7000 --state-dir {home.state}" in said
    assert "has a CA already" in home.fails("pki", "init", "--host", "x")


def test_the_code_is_alone_on_standard_output(home: Home) -> None:
    result = home("enroll", "site-a")
    (line,) = result.stdout.splitlines()
    code = read_code(line)
    assert f"the CA has the key {ca_key(code.ca_pem)}" in result.stderr
    assert (code.name, code.address) == ("site-a", "fl.example.org:50051")
    assert "domo-client enroll CODE" in result.stderr
    assert home.rows()["site-a"]["state"] == "invited"
    other = home("enroll", "site-b", "--address", "10.0.0.1:9").stdout
    assert read_code(other).address == "10.0.0.1:9"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["enroll", "fl.example.org"], "own name"),
        (["enroll", "a b"], "no name of a silo"),
        (["enroll", "a", "--valid", "8d"], "at most 7d"),
        (["enroll", "a", "--valid", "soon"], "a time such as"),
        (["enroll", "a", "--valid", "0s"], "at most 7d"),
        (["enroll", "a", "--days", "0"], "--days must be"),
        (["enroll", "a", "--days", "nan"], "--days must be"),
        (["enroll", "a", "--address", "nowhere"], "--address"),
        (["admit", "a", "--key", "SHA256:short"], "43 characters"),
        (["admit", "localhost"], "own name"),
        (["enroll", "LOCALHOST"], "own name"),
        (["admit", "a"], "which key?"),
        (["revoke", "a/b"], "no name of a silo"),
    ],
)
def test_what_is_given_wrongly_is_said(words: list[str], why: str, home: Home) -> None:
    assert why in home.fails(*words)
    assert home.rows() == {}


def test_without_a_ca_it_says_what_to_do(tmp_path: Path) -> None:
    home = Home(tmp_path)
    text = home.fails("enroll", "site-a")
    assert "domo-server pki init" in text
    assert "domo-server admit" in text
    assert "no coordinator's state" in home.fails("revoke", "site-a")


def test_a_request_is_signed_once_its_key_was_compared(home: Home, tmp_path: Path) -> None:
    request = tmp_path / "a.csr"
    request.write_bytes(make_request(new_key(), "site-a"))
    key = read_request(request.read_bytes()).fingerprint
    assert "give --yes" in home.fails("sign", request)
    assert home.rows() == {}
    result = home("sign", request, "--yes")
    assert key in result.stderr
    answer = Path(result.stdout.strip())
    assert answer == tmp_path / "site-a.domo"
    bundle = read_bundle(answer)
    cert = x509.load_pem_x509_certificate(bundle.cert_pem)
    assert (dns_names(cert), fingerprint(cert)) == (("site-a",), key)
    assert bundle.address == "fl.example.org:50051"
    assert home.rows()["site-a"]["key"] == key


def test_what_cannot_be_signed(home: Home, tmp_path: Path) -> None:
    request = tmp_path / "a.csr"
    assert "cannot read" in home.fails("sign", request, "--yes")
    request.write_text("rubbish")
    assert "no request" in home.fails("sign", request, "--yes")
    request.write_bytes(make_request(new_key(), "localhost"))
    assert "own name" in home.fails("sign", request, "--yes")


def test_admitted_and_revoked_and_in_the_record(home: Home) -> None:
    key = "SHA256:" + "a" * 43
    assert home("admit", "site-a", "--key", key).exit_code == 0
    assert home("admit", "site-b", "--key", key).exit_code == 0
    assert home("revoke", "site-a").exit_code == 0
    rows = home.rows()
    assert (rows["site-a"]["state"], rows["site-a"]["key"]) == ("revoked", key)
    assert (rows["site-b"]["state"], rows["site-b"]["key"]) == ("active", key)
    store = Store(open_beside(f"sqlite:///{home.state / 'coordinator.db'}"))
    said = [(e.kind, e.silo_id) for e in store.events_after(0, 10)]
    store.close()
    assert said == [("admitted", "site-a"), ("admitted", "site-b"), ("revoked", "site-a")]
    lines = home("silos").stdout.splitlines()
    assert lines[0].split()[:2] == ["site-a", "revoked"]
    assert key in lines[1]


def test_what_becomes_of_a_name_that_is_known_is_said_before(home: Home, tmp_path: Path) -> None:
    """Somebody else may ask to be a silo that is there, and it may have been revoked."""
    old, new = "SHA256:" + "a" * 43, tmp_path / "a.csr"
    new.write_bytes(make_request(new_key(), "site-a"))
    assert home("admit", "site-a", "--key", old).exit_code == 0
    said = home("sign", new, "--yes").stderr
    assert f"site-a is let in already, with {old}: that is refused once this is signed" in said
    assert "let in already" not in home("sign", new, "--yes").stderr  # the same key
    assert "is let in already, with SHA256:" in home("enroll", "site-a").stderr
    assert home("revoke", "site-a").exit_code == 0
    assert "site-a was revoked by" in home("enroll", "site-a").stderr
    assert "has had a code already, which is void now" in home("enroll", "site-a").stderr


def test_a_name_that_nobody_had_let_in_may_be_one_letter_off(home: Home) -> None:
    assert home("admit", "site-a", "--key", "SHA256:" + "a" * 43).exit_code == 0
    said = home("revoke", "site_a").stderr
    assert "nobody had let site_a in; did you mean site-a?" in said
    assert home.rows()["site-a"]["state"] == "active"
    assert "nobody had" not in home("revoke", "site-a").stderr
