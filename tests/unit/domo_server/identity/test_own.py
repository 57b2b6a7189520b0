"""What is said where anybody may join, or nobody can; whose CA is used."""

from pathlib import Path
from typing import Any

import pytest

from domo_server.config import ServerConfig
from domo_server.identity.authority import make_pki
from domo_server.identity.own import authority_of, nameless, rules_of
from domo_server.pki_files import pki_of

FILES = {"cert": Path("c.pem"), "key": Path("k.pem")}


def config(folder: Path, **more: Any) -> ServerConfig:
    return ServerConfig(state_dir=folder, **more)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listen": "127.0.0.1:1"}, False),
        ({"listen": "0.0.0.0:1", "insecure": True}, True),
        ({"listen": "0.0.0.0:1", "tls": FILES}, True),
        ({"listen": "127.0.0.1:1", "tls": FILES}, False),
        ({"listen": "0.0.0.0:1", "tls": FILES | {"client_ca": Path("ca.pem")}}, False),
    ],
)
def test_silos_without_certificates_on_a_public_address_are_said(
    settings: dict[str, Any], said: bool, tmp_path: Path
) -> None:
    assert bool(nameless(config(tmp_path, **settings))) is said


def test_the_own_ca_is_used_where_no_other_is_set(tmp_path: Path) -> None:
    assert config(tmp_path).tls_in_use is None
    assert authority_of(config(tmp_path)) is None
    pki = pki_of(tmp_path)
    make_pki(pki, ["a.example"], "a.example:1")
    mine = config(tmp_path, listen="0.0.0.0:1")  # no `insecure` is needed
    assert mine.tls_in_use is not None
    assert mine.tls_in_use.client_ca == pki.ca
    assert nameless(mine) == ""
    assert authority_of(mine) is not None
    rules = rules_of(mine.tls_in_use, True)
    assert rules.mutual
    assert {"a.example", "localhost", "127.0.0.1"} <= rules.own_names
    other = config(tmp_path, tls=FILES)
    assert other.tls_in_use is other.tls
    assert authority_of(other) is None
    pki.ca_key.unlink()  # kept elsewhere
    assert authority_of(mine) is None
    assert mine.tls_in_use is not None


@pytest.mark.parametrize(
    "names", [{"site-a": "site-a"}, {"spiffe://d/a": "a b"}, {"domo:enrol:a:b": "a"}]
)
def test_a_table_of_names_that_is_none(names: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="spiffe://domain/path"):
        config(tmp_path, tls=FILES | {"names": names})
