"""A code is one line that is whole or says how it was cut; a bundle is a file."""

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from domo.errors import ConfigError
from domo_proto.enrolment import Bundle, Code, make_bundle, make_code, read_bundle, read_code
from domo_proto.identities import ENROL_URI, fingerprint, key_to_pem, new_key


def certificate(common_name: str, *uris: str) -> tuple[bytes, bytes]:
    """A self-signed certificate, and its key."""
    key, now = new_key(), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(hours=1))
    )
    if uris:
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    cert = builder.sign(key, hashes.SHA256())
    return cert.public_bytes(Encoding.PEM), key_to_pem(key)


@pytest.fixture(scope="module")
def code() -> Code:
    cert, key = certificate("enrolment of site-a", f"{ENROL_URI}site-a:abcdefgh")
    return Code("fl.example.org:50051", key, cert, certificate("CA")[0])


def test_a_code_is_one_short_line_and_comes_back_whole(code: Code) -> None:
    text = make_code(code)
    assert text.startswith("domo1.")
    assert len(text) < 1400
    assert len(text.split()) == 1
    assert text.isascii()
    assert read_code(text) == code
    assert read_code(text).name == "site-a"


def test_what_terminals_and_letters_put_into_a_code_is_left_out(code: Code) -> None:
    text = make_code(code)
    folded = "\r\n  ".join(text[at : at + 60] for at in range(0, len(text), 60))
    assert read_code(f"  {folded}\n") == code


def test_a_code_that_was_cut_says_so_wherever_that_was(code: Code) -> None:
    text = make_code(code)
    for end in (7, 8, 9, 10, 60, len(text) // 2, len(text) - 2, len(text) - 1):
        with pytest.raises(ConfigError, match="was cut"):
            read_code(text[:end])
    with pytest.raises(ConfigError, match=rf"{len(text) - 40} of {len(text)} characters"):
        read_code(text[:-40])


@pytest.mark.parametrize("at", [6, 8, 20, 300, -3])
def test_one_wrong_letter_is_found(code: Code, at: int) -> None:
    text = make_code(code)
    other = "A" if text[at] != "A" else "B"
    wrong = text[:at] + other + text[at + 1 if at != -1 else len(text) :]
    with pytest.raises(ConfigError, match=r"wrong|cut|more characters"):
        read_code(wrong)


def test_what_is_no_code_is_called_that(code: Code) -> None:
    for text, why in (
        ("", "begins with domo1"),
        ("hello", "begins with domo1"),
        ("domo2.abcd", "another version"),
        ("domo1.a$b$", "a letter that no code has"),
        (make_code(code) + "AAAA", "more characters"),
    ):
        with pytest.raises(ConfigError, match=why):
            read_code(text)


def test_a_code_whose_certificate_is_for_nobody_is_none(code: Code) -> None:
    cert, key = certificate("somebody")
    with pytest.raises(ConfigError, match="made by something else"):
        read_code(make_code(code._replace(cert_pem=cert, key_pem=key)))


def test_a_bundle_comes_back_from_its_file(tmp_path: Path) -> None:
    bundle = Bundle("fl.example.org:50051", certificate("site-a")[0], certificate("CA")[0])
    path = tmp_path / "site-a.domo"
    path.write_bytes(make_bundle(bundle))
    assert read_bundle(path) == bundle
    read = x509.load_pem_x509_certificates(path.read_bytes())  # any tool reads it
    assert fingerprint(read[0]).startswith("SHA256:")
    path.write_bytes(bundle.ca_pem)
    with pytest.raises(ConfigError, match="no file of"):
        read_bundle(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_bundle(tmp_path / "absent")
