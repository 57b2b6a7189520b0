"""Canaille, a real OpenID Provider, as a process; and a person who fills in its forms."""

import contextlib
import html
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.live.killable import free_port

SERVER = Path(__file__).with_name("canaille_server.py")
TOOL = sorted(Path(sys.prefix).glob("canaille-*"))
CLIENT, SECRET, PASSWORD = "domo-dashboard", "the-secret-of-domo", "correct horse battery staple"
needs_provider = pytest.mark.skipif(
    not TOOL, reason="Canaille, an OpenID Provider, is not here: bash scripts/provider.sh"
)


@contextlib.contextmanager
def canaille(redirect_uri: str) -> Iterator[str]:
    """A provider that knows one client; its issuer."""
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TOOL[-1]), "HOME": "/nonexistent"}
    process = subprocess.Popen(
        [sys.executable, "-P", str(SERVER), str(port), redirect_uri, CLIENT, SECRET, PASSWORD],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{issuer}/.well-known/openid-configuration")
                break
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end, "the provider does not answer"
            time.sleep(0.05)
        yield issuer
    finally:
        process.terminate()
        process.communicate(timeout=10)


def log_in_at_provider(browser: httpx.Client, page: httpx.Response, name: str) -> httpx.Response:
    """Fill in the forms of the provider, until it sends the browser back; what comes then."""
    origin = page.url.copy_with(raw_path=b"/")
    for value in ({"login": name}, {"password": PASSWORD}):
        fields = dict(re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page.text))
        fields = {k: html.unescape(v) for k, v in fields.items() if k == "csrf_token"}
        assert fields, page.text[:2000]
        page = browser.post(page.url, data={**fields, **value})
    assert page.url.host != origin.host or page.url.port != origin.port, page.text[:2000]
    return page
