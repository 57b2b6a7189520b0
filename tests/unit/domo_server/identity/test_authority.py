"""The coordinator's own CA: its files, what it signs, when it renews."""

import stat
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from domo.errors import ConfigError
from domo_proto.certificates import alternative_names
from domo_proto.identities import dns_names, fingerprint, invited, new_key
from domo_server.identity import authority
from domo_server.identity.authority import (
    CA_DAYS,
    SERVER_DAYS,
    Authority,
    make_pki,
)
from domo_server.pki_files import Pki, pki_of

DAY_S = 86_400


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    made = pki_of(tmp_path / "state")
    make_pki(made, ["fl.example.org", "192.0.2.7"], "fl.example.org:50051")
    return made


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def days(cert: x509.Certificate) -> float:
    return (cert.not_valid_after_utc.timestamp() - time.time()) / DAY_S


def test_its_files_are_its_owners_only(pki: Pki) -> None:
    names = ["address", "ca.key", "ca.pem", "server.key", "server.pem"]
    assert sorted(p.name for p in pki.folder.iterdir()) == names
    assert {stat.S_IMODE(p.stat().st_mode) for p in pki.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(pki.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(pki.folder.parent.stat().st_mode) == 0o700
    assert pki.address.read_text() == "fl.example.org:50051\n"


def test_a_ca_that_is_there_stays(pki: Pki) -> None:
    before = {p: p.read_bytes() for p in pki.folder.iterdir()}
    with pytest.raises(ConfigError, match="has a CA already"):
        make_pki(pki, ["other"], "other:1")
    pki.ca.unlink()  # half of one, too
    with pytest.raises(ConfigError, match=r"has files of a CA, and no ca\.pem"):
        make_pki(pki, ["other"], "other:1")
    assert all(p.read_bytes() == data for p, data in before.items() if p != pki.ca)


def test_a_try_that_was_cut_off_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no CA before all of it is there."""
    pki, written = pki_of(tmp_path / "state"), list[Path]()
    write = authority.write_secret

    def dies(path: Path, data: bytes) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(path)
        write(path, data)

    monkeypatch.setattr(authority, "write_secret", dies)
    with pytest.raises(KeyboardInterrupt):
        make_pki(pki, ["a.example"], "a.example:1")
    assert not pki.folder.exists()
    monkeypatch.undo()
    make_pki(pki, ["a.example"], "a.example:1")
    assert [path.name for path in pki.folder.parent.iterdir()] == ["pki"]
    Authority(pki)


def test_the_ca_may_sign_ends_only_and_for_ten_years(pki: Pki) -> None:
    ca = read(pki.ca)
    basic = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (basic.ca, basic.path_length) == (True, 0)
    usage = ca.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_cert_sign
    assert not usage.digital_signature
    assert days(ca) == pytest.approx(CA_DAYS, abs=0.1)


def test_the_coordinators_certificate_has_the_names_that_silos_dial(pki: Pki) -> None:
    own = read(pki.cert)
    own.verify_directly_issued_by(read(pki.ca))
    assert {"fl.example.org", "192.0.2.7", "localhost", "127.0.0.1"} <= set(alternative_names(own))
    assert days(own) == pytest.approx(SERVER_DAYS, abs=0.1)


@pytest.mark.parametrize("host", ["a:1", "http://a", "a b", "", "*.a", "ü.example"])
def test_what_is_no_host_is_refused_before_anything_is_made(host: str, tmp_path: Path) -> None:
    made = pki_of(tmp_path)
    with pytest.raises(ConfigError, match="--host"):
        make_pki(made, [host], "x:1")
    assert not made.folder.exists()


def test_a_silos_certificate_names_it_and_nothing_else(pki: Pki) -> None:
    key = new_key()
    cert = Authority(pki).certify(key.public_key(), "site-a", 30)
    cert.verify_directly_issued_by(read(pki.ca))
    assert dns_names(cert) == ("site-a",)
    uses = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert days(cert) == pytest.approx(30, abs=0.01)
    assert not cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_short_certificate_begins_just_before_now(pki: Pki) -> None:
    cert = Authority(pki).certify(new_key().public_key(), "site-a", 60 / DAY_S)
    assert 0 <= time.time() - cert.not_valid_before_utc.timestamp() < 10
    assert 50 < cert.not_valid_after_utc.timestamp() - time.time() <= 60


def test_a_codes_certificate_names_no_silo_and_lives_longer_than_any_code(pki: Pki) -> None:
    pem, _ = Authority(pki).certify_code("site-a", "n0nce")
    cert = x509.load_pem_x509_certificate(pem)
    assert dns_names(cert) == ()
    assert invited(cert) == ("site-a", "n0nce")
    assert days(cert) == pytest.approx(7, abs=0.01)


def test_the_own_certificate_is_renewed_at_half_of_its_time_with_its_key_and_names(
    pki: Pki,
) -> None:
    authority, before, key = Authority(pki), read(pki.cert), pki.key.read_bytes()
    assert not authority.renew_own(time.time() + 44 * DAY_S)
    assert read(pki.cert) == before
    assert authority.renew_own(time.time() + 46 * DAY_S)
    after = read(pki.cert)
    assert after.serial_number != before.serial_number
    assert fingerprint(after) == fingerprint(before)
    assert alternative_names(after) == alternative_names(before)
    assert pki.key.read_bytes() == key
    assert stat.S_IMODE(pki.cert.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["ca.pem", "ca.key"])
def test_a_damaged_ca_is_named(name: str, pki: Pki) -> None:
    (pki.folder / name).write_text("rubbish")
    with pytest.raises(ConfigError, match="is damaged"):
        Authority(pki)
    (pki.folder / name).unlink()
    with pytest.raises(ConfigError, match=f"cannot read .*{name}"):
        Authority(pki)
