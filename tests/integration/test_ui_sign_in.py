"""The sign-in of `moorage ui-server` in a real browser, with accounts of a real API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browser import Browser
from support.operator_cluster import Api, model
from support.page_looks import contrast_problems, has_visible_focus, overflow_problems
from support.ui_server import Accounts, UiServer

pytestmark = [pytest.mark.integration, pytest.mark.browser, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def server(
    window: Browser, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[UiServer]:
    del window  # without a browser, nothing of this is needed
    with UiServer(kubeconfig, tmp_path_factory.mktemp("ui-server")) as made:
        yield made


@pytest.fixture
def accounts(api: Api) -> Accounts:
    api.apply(model("iris"))
    return Accounts(api)


@pytest.fixture
def page(browser: Browser, server: UiServer) -> Iterator[Browser]:
    """The page, which has just been opened; nothing of a token stays behind."""
    browser.open(f"{server.url}/")
    browser.reads("#sign-in", "sign in with a token of this cluster")
    yield browser
    left = "return [document.cookie, localStorage.length, sessionStorage.length, location.hash]"
    assert browser.run(left) == ["", 0, 0, browser.run("return location.hash")]


def sign_in(page: Browser, token: str, namespace: str = "") -> None:
    for field, text in (("#sign-in-token", token), ("#sign-in-namespace", namespace)):
        page.run("document.querySelector(arguments[0]).value = arguments[1]", field, text)
    page.click("#sign-in button")


def is_wall(page: Browser) -> str:
    return page.eventually(
        "the wall",
        """return document.querySelector("#wall").checkVisibility()
            && !document.querySelector("#sign-in").checkVisibility()
            && document.querySelector("#live").innerText === "live" """,
    )


def test_a_pasted_token_leads_to_the_wall_and_its_end_back_to_the_sign_in(
    page: Browser, server: UiServer, api: Api, accounts: Accounts
) -> None:
    token = accounts.create("editor")

    sign_in(page, token, api.namespace)
    is_wall(page)
    page.reads("#models", "iris")
    page.run("location.hash = arguments[0]", f"#!{api.namespace}/iris")
    page.reads("h2", "iris")
    page.click("#model button", "Pause")
    page.click("#ask button", "Pause")
    page.reads("#outcome", "is paused")

    accounts.delete("editor")
    page.eventually(
        "the token has ended",
        """document.querySelector("#model .bar button")?.click();
        const asked = document.querySelector("#ask");
        if (asked.open) asked.querySelector(".act").click();
        return document.querySelector("#sign-in").checkVisibility()""",
        seconds=60,
    )
    page.reads("#sign-in-why", "the API server does not accept the token: it may have expired")
    shown = "return document.querySelector('main').textContent"
    assert "iris" not in page.run(shown)

    sign_in(page, accounts.create("viewer", ["get", "list", "watch"]), api.namespace)
    page.reads("#model", "Resume")
    assert "does not accept" not in page.text("body")
    assert page.run("return document.querySelectorAll('#models li').length") == 1


def test_a_token_that_is_not_valid_is_told_and_another_one_can_be_pasted(
    page: Browser, api: Api, accounts: Accounts
) -> None:
    sign_in(page, "garbage", api.namespace)
    page.reads("#sign-in-why", "the API server does not accept the token")

    sign_in(page, accounts.create("viewer", ["get", "list", "watch"]), api.namespace)
    is_wall(page)


def test_who_may_see_one_namespace_reads_why_and_names_it(
    page: Browser, api: Api, accounts: Accounts
) -> None:
    sign_in(page, accounts.create("viewer", ["get", "list", "watch"]))
    page.reads("#sign-in-why", ":viewer")
    page.reads("#sign-in-why", "at the cluster scope")
    sign_in(page, "", "No Name")
    page.reads("#sign-in-why", "'No Name' is not a name")

    sign_in(page, "", api.namespace)
    is_wall(page)
    page.reads("#states", "1 model")


def test_the_sign_in_is_readable_fits_a_phone_and_needs_no_mouse(
    page: Browser, api: Api, accounts: Accounts
) -> None:
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        assert contrast_problems(page) == []
    page.resize(360, 740, phone=True)
    assert overflow_problems(page) == []
    assert has_visible_focus(page)

    page.write(accounts.create("viewer", ["get", "list", "watch"]))
    page.press("Tab")
    assert has_visible_focus(page)
    page.write(api.namespace)
    page.press("Enter")
    is_wall(page)
