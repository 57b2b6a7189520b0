"""Why a call over HTTP has failed, in words for an operator; never with the password of a proxy."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from domo.errors import ConfigError
from domo.names import one_line
from domo.ops.addresses import PAGE_PORT
from domo.ops.proxies import note_of_http

OTHER_PORT = f"the dashboard's is {PAGE_PORT} by default"
CAUSES = {
    "illegal request line": f"it speaks no HTTP/1, as the port for silos; {OTHER_PORT}",
    "illegal status line": f"it speaks no HTTP/1, as the port for silos; {OTHER_PORT}",
    "disconnected without sending": "it hangs up: it may want https://, or be the port for silos; "
    + OTHER_PORT,
    "WRONG_VERSION_NUMBER": "it does not speak https; give http://",
    "certificate has expired": "its certificate has expired, or this machine's clock is wrong",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not signed by a CA that is trusted here, or "
    "is for another name; SSL_CERT_FILE names the file of a CA",
}
"""What httpx says, and what it means."""


def why(error: Exception, url: str) -> str:
    """What an error of httpx means.

    Args:
        error: As it was raised.
        url: Whom the call was to.
    """
    said = _of_system(error) or str(error) or type(error).__name__
    text = next((words for part, words in CAUSES.items() if part in said), said)
    if isinstance(error, httpx.TimeoutException):
        text = "no answer in time"
    return masked(one_line(text)) + note_of_http(url)


@contextmanager
def usable_environment() -> Iterator[None]:
    """For making a client of httpx, which reads variables.

    Raises:
        ConfigError: It can do nothing with one of them.
    """
    of_proxies = "a proxy of ALL_PROXY, HTTP_PROXY or HTTPS_PROXY cannot be used"
    try:
        yield
    except ImportError:
        raise ConfigError(
            f"{of_proxies}: it is a SOCKS proxy, which needs a package that is not installed: "
            "pip install 'httpx[socks]', or unset the variable for this command"
        ) from None
    except OSError as error:
        file = os.environ.get("SSL_CERT_FILE", "")
        said = (error.strerror or str(error)).lower()
        text = f"SSL_CERT_FILE={file}: no CAs can be read there: {said}; mend it, or unset it"
        raise ConfigError(text) from None
    except (ValueError, httpx.InvalidURL) as error:
        said = masked(str(error))
        text = f"{of_proxies}, or NO_PROXY: {said}; mend the variable, or unset it"
        raise ConfigError(text) from None


def _of_system(error: BaseException | None) -> str:
    """What the system says, where it is what an error was made of; empty: it is not."""
    while error is not None:
        if isinstance(error, socket.gaierror):
            return "the name cannot be resolved"
        if isinstance(error, ConnectionError) and error.errno is not None:
            return os.strerror(error.errno).lower()
        error = error.__cause__ or error.__context__
    return ""


def masked(text: str) -> str:
    """A text without user and password of the URLs in it."""
    return re.sub(r"//[^/@\s]*@", "//", text)
