"""Why somebody is not let in: classes of their own, so that programs can tell them apart."""

from domo.errors import AccessError


class RevokedError(AccessError):
    """The silo was let in once, and is not any more."""

    code = "revoked"


class NotAdmittedError(AccessError):
    """Nobody has let the silo in, or not with this key."""

    code = "not-admitted"


class CertificateEndedError(AccessError):
    """The certificate that a connection began with is over."""

    code = "certificate-expired"


class CodeError(AccessError):
    """A code for enrolment that is not good, or not for this."""

    code = "enrolment-code"
