"""What `domo-server check` says of certificates; changes nothing."""

import time
from collections.abc import Iterator

from domo.errors import ConfigError
from domo.ops.findings import Finding, ok, problem, warning
from domo_proto.certificates import alternative_names, check_dates, check_pair, read_certificates
from domo_server.config import ServerConfig, TlsConfig
from domo_server.identity.own import nameless
from domo_server.pki_files import pki_of

RENEW = "have it renewed; the coordinator reads the new one by itself"
READ = "check the path, its owner and its permissions"


def certificates(settings: ServerConfig) -> Iterator[Finding]:
    """The PEM files of TLS for silos: readable, fitting, valid; and whether silos show any."""
    tls = settings.tls_in_use
    if words := nameless(settings):
        yield warning(words, "do so, unless this network is trusted as a whole")
    if tls is None:
        yield ok(f"no TLS: silos speak plain text to {settings.listen}")
        return
    yield from check_pair(tls.cert, tls.key)
    try:
        own = read_certificates(tls.cert, "cert")[0]
    except ConfigError:
        own = None
    if own is not None:
        yield check_dates(own, f"the certificate {tls.cert}", RENEW, time.time())
        names = alternative_names(own)
        if names:
            yield ok(f"silos can dial {', '.join(names)}")
        else:
            text = f"the certificate {tls.cert} has no subject alternative name"
            yield problem(text, "have one made with the names that silos dial; they refuse others")
    if tls.client_ca is not None:
        yield from _of_silos(settings, tls)


def _of_silos(settings: ServerConfig, tls: TlsConfig) -> Iterator[Finding]:
    assert tls.client_ca is not None
    try:
        ca = read_certificates(tls.client_ca, "client_ca")[0]
    except ConfigError as error:
        yield problem(str(error), READ)
        return
    yield check_dates(ca, f"the silos' CA {tls.client_ca}", RENEW, time.time())
    own = pki_of(settings.state_dir)
    if tls.client_ca != own.ca:
        yield ok("silos are let in that a run names, or that are admitted: domo-server admit NAME")
    elif own.ca_key.exists():
        yield ok("silos are let in with a code: domo-server enroll NAME")
    else:
        text = f"{own.ca_key} is not there: no silo can enrol, and no certificate is renewed"
        yield warning(text, "put it back, from where you keep it, before certificates end")
