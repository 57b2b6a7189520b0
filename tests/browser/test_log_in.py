"""Logging in at a real provider by the page's button, roles on the page, sessions that end."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.chrome import Page, chrome
from tests.support.live import openid
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.killable import free_port

HERE = "return location.pathname + location.search + location.hash"
RUN = {"task": "digits", "num_rounds": 1, "num_silos": 1}
pytestmark = openid.needs_provider


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """A coordinator at which reading needs a role, as there is a proxy before it."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    page = f"http://127.0.0.1:{port}"
    secret = folder / "secret"
    secret.write_text(openid.SECRET)
    with openid.canaille(f"{page}/login/oidc/callback") as issuer:
        table = {
            "issuer": issuer,
            "client_id": openid.CLIENT,
            "client_secret_file": secret,
            "scopes": ["openid", "email", "groups"],
            "role_claim": "groups",
            "roles": {"admins": "admin", "others": "viewer"},
        }
        with coordinator(
            folder,
            RUN,
            dashboard=f"127.0.0.1:{port}",
            dashboard_url=page,
            trusted_proxies=["192.0.2.1"],
            oidc=table,
        ) as it:
            yield it


@pytest.fixture
def page(server: Coordinator, tmp_path: Path) -> Iterator[Page]:
    with chrome(server.url, tmp_path) as it:
        yield it


def log_in(page: Page, name: str) -> None:
    """From the page's button through the provider's form."""
    page.click("#provider")
    for field, value in (("login", name), ("password", openid.PASSWORD)):
        # a click leaves the field first, which the form then asks its server about, and empties
        page.fill(f"input[name={field}]", f"{value}\n")


def may_take_models(page: Page) -> bool:
    """Whether the link to a model is shown once there is a model."""
    script = (
        "const link = document.querySelector('#runs [data-f=model]').cloneNode(true);"
        "link.hidden = false; document.querySelector('main').append(link);"
        "const shown = getComputedStyle(link).display !== 'none'; link.remove(); return shown"
    )
    page.find("#runs [data-f='history.csv']")
    return bool(page.driver.execute_script(script))


def test_from_a_link_through_the_providers_form_back_to_it(page: Page, server: Coordinator) -> None:
    page.driver.get(f"{page.url}/#/runs")
    page.until(lambda: page.driver.execute_script(HERE) == "/login#/runs", "led to the log-in")
    assert page.text("#provider").startswith("Log in at 127.0.0.1:")
    page.until(lambda: not page.driver.find_element("css selector", "#look").is_displayed(), "look")
    for width, theme in ((1400, "light"), (390, "dark")):
        page.of_width(width)
        page.colours(theme)
        assert page.faults() == []
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
    page.of_width(1400)
    page.errors()  # of what was asked for before the log-in

    log_in(page, "anna")
    page.until(lambda: page.driver.execute_script(HERE) == "/#/runs", "back where it was")
    page.until(lambda: page.text("#role") == "Admin", "the role")
    assert page.text("#person") == "anna"
    assert may_take_models(page)
    assert page.faults() == []
    page.go("#/new")
    assert page.find("form.start button[type=submit]").is_enabled()
    page.go("#/runs")
    assert not [error for error in page.errors() if page.url in error], "of domo's own pages"

    # the session ends elsewhere: the open page goes to the log-in, and comes back to where it was
    cookies = {c["name"]: c["value"] for c in page.driver.get_cookies()}
    with httpx.Client(base_url=page.url, cookies=cookies, headers={"Origin": page.url}) as other:
        assert other.post("/logout").status_code == 303
    page.until(lambda: page.driver.execute_script(HERE) == "/login#/runs", "led there again")
    log_in_again = page.find("#provider")
    log_in_again.click()  # the provider still knows her
    page.until(lambda: page.driver.execute_script(HERE) == "/#/runs", "and back")
    page.until(lambda: page.text("#role") == "Admin", "the role again")
    page.click("#logout button")
    page.until(lambda: page.driver.execute_script(HERE) == "/login#/runs", "logged out")


def test_a_viewer_sees_no_control_that_is_not_for_viewers(page: Page) -> None:
    page.driver.get(f"{page.url}/")
    page.find("#provider")
    page.until(lambda: page.driver.execute_script(HERE).startswith("/login"), "led to the log-in")
    log_in(page, "otto")
    page.until(lambda: page.text("#role") == "Viewer", "the role")
    assert page.text("#person") == "otto"
    page.go("#/runs")
    page.find("#runs [data-f='history.csv']")
    assert not may_take_models(page)
    for css in (".admin-only", ".auditor-only"):
        found = page.driver.find_elements("css selector", css)
        assert not [e for e in found if e.is_displayed()], css
    words = {b.text for b in page.driver.find_elements("css selector", "button")}
    assert not words & {"Pause", "Resume", "Stop run"}
    page.go("#/new")
    assert not page.find("form.start button[type=submit]").is_enabled()
