"""Pages for people where a program would get JSON: they say what is wrong and what to do."""

import re
from html import escape
from pathlib import Path

from fastapi.responses import HTMLResponse
from starlette.datastructures import Headers

_STATIC = Path(__file__).parents[1] / "static"


def wants_page(headers: Headers) -> bool:
    """Whether a browser asks for a document; programs that take anything get JSON."""
    return "text/html" in headers.get("accept", "").lower()


def login_page(said: str = "", status: int = 200, provider: str = "") -> HTMLResponse:
    """The form to log in, with what was wrong with the last try.

    Args:
        said: That.
        status: Of the answer.
        provider: Where people may log in instead; empty: nowhere.
    """
    return _filled("login.html", said, status, provider)


def code_page(code: str) -> HTMLResponse:
    """The button that uses a log-in code."""
    return _filled("code.html", code, 200)


def error_page(said: str, status: int) -> HTMLResponse:
    """What is wrong with an address that somebody opened."""
    return _filled("error.html", said, status)


def _filled(name: str, said: str, status: int, provider: str = "") -> HTMLResponse:
    page = (_STATIC / name).read_text("utf-8")
    words = said[:1].upper() + said[1:]
    values = {
        "{{said}}": words,
        "{{code}}": said,
        "{{provider}}": provider,
        "{{no-provider}}": "" if provider else "hidden",
    }
    filled = re.sub(r"{{[a-z-]+}}", lambda found: escape(values[found[0]]), page)
    return HTMLResponse(filled, status)
