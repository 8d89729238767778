"""Every view of `moorage ui` in a real browser, with models that a real operator reports.

With SCREENSHOTS=FOLDER, the pictures of the docs are written (`make screenshots`).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.browser import Browser
from support.fleet import NAMESPACE, STATES, Fleet
from support.operator_cluster import OperatorProcess, eventually
from support.page_looks import contrast_problems, has_visible_focus, overflow_problems
from support.ui import Ui

pytestmark = [pytest.mark.integration, pytest.mark.browser, pytest.mark.timeout(300)]

PICTURE_LIMIT_BYTES = 150_000
MODELS = ("recommender", "fraud-score", "ranking", "digits", "embeddings")


@pytest.fixture(scope="module")
def fleet(kubeconfig: Path, running_operator: OperatorProcess, window: Browser) -> Iterator[Fleet]:
    del window  # without a browser, nothing of this is needed
    running_operator.wait_ready()
    with Fleet(kubeconfig, running_operator) as made:
        yield made


@pytest.fixture(scope="module")
def ui(fleet: Fleet) -> Iterator[Ui]:
    with Ui(fleet.api.kubeconfig, NAMESPACE) as made:
        yield made


def open_wall(browser: Browser, ui: Ui) -> None:
    browser.open(ui.url)
    browser.reads("#states", f"{sum(STATES.values())} models")
    browser.reads("#live", "live")


def open_model(browser: Browser, ui: Ui, name: str) -> None:
    browser.open("about:blank")
    browser.open(ui.url_of(NAMESPACE, name))
    browser.reads("h2", name)
    browser.eventually("it is read", "return document.querySelectorAll('#model dl').length")


def spec_of(fleet: Fleet, name: str) -> dict[str, Any]:
    return fleet.api.get("InferenceModel", name)["spec"]


def test_the_wall_counts_the_models_of_each_state_and_shows_why(browser: Browser, ui: Ui) -> None:
    open_wall(browser, ui)

    shown = browser.text("#states").split("\n")
    assert shown == [f"{sum(STATES.values())} models", *(f"{n} {s}" for s, n in STATES.items())]
    for text in (
        "failing: ModelLoadFailed",
        "opset 23",
        "stuck: RolledBack",
        "changing: AwaitingApproval",
        "resting: Suspended",
    ):
        browser.reads("#models", text)


def test_a_search_and_a_state_narrow_the_wall(browser: Browser, ui: Ui) -> None:
    open_wall(browser, ui)

    browser.click("#states button", "2 failing")
    shown = "return [...document.querySelectorAll('#models strong')]"
    shown += ".filter((each) => each.checkVisibility()).map((each) => each.textContent)"
    assert browser.run(shown) == ["churn", "recommender"]
    browser.press("/")
    browser.write("pullbackoff")
    assert browser.run(shown) == ["churn"]
    browser.write("x")
    assert browser.text("#none") == "No model matches."
    browser.press("Escape")
    assert browser.run(shown) == ["churn", "recommender"]


def test_a_failing_model_shows_its_causes_and_what_to_do(browser: Browser, ui: Ui) -> None:
    open_model(browser, ui, "recommender")

    browser.reads(".cause", "opset 23")
    assert "What to do:" in browser.text(".cause")
    assert "recommender" in browser.run("return document.title")
    assert "Abort" not in browser.text("#model")


def test_an_unknown_model_is_an_error_with_a_way_back(browser: Browser, ui: Ui) -> None:
    browser.open(ui.url_of(NAMESPACE, "nothing"))

    browser.reads("[role=alert]", f"inferencemodel {NAMESPACE}/nothing")
    browser.click("#model nav a")
    browser.reads("#states", "models")


def test_an_address_with_a_malformed_escape_is_an_error_with_a_way_back(
    browser: Browser, ui: Ui
) -> None:
    browser.open(ui.url_of("%zz", "x"))

    browser.reads("#live", "live")
    browser.reads("[role=alert]", "%zz")
    browser.click("#model nav a")
    browser.reads("#states", "models")


def test_a_failed_rollout_is_in_the_timeline(browser: Browser, ui: Ui) -> None:
    open_model(browser, ui, "ranking")

    rows = browser.text("#model table").split("\n")
    assert any("failed: InvalidImageName" in row for row in rows), rows
    assert any("serves" in row and "1/1 serve" in row for row in rows), rows


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_and_control_has_enough_contrast(browser: Browser, ui: Ui, scheme: str) -> None:
    browser.prefer(scheme)
    open_wall(browser, ui)
    assert contrast_problems(browser) == []
    for name in MODELS:
        open_model(browser, ui, name)
        assert contrast_problems(browser) == []
    browser.click("#model button", "Pause")
    assert contrast_problems(browser) == []
    browser.press("Escape")


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Browser, ui: Ui) -> None:
    browser.resize(360, 740, phone=True)
    open_wall(browser, ui)
    assert overflow_problems(browser) == []
    for name in MODELS:
        open_model(browser, ui, name)
        assert overflow_problems(browser) == []
    browser.click("#model button", "Pause")
    assert overflow_problems(browser) == []
    browser.press("Escape")


def test_pictures_for_the_docs(browser: Browser, ui: Ui, tmp_path: Path) -> None:
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.resize(1200, 600)
        browser.open("about:blank")  # a wall that is returned to has a focused card
        open_wall(browser, ui)
        browser.picture(folder / f"page-wall-{scheme}.png")
        browser.resize(1200, 740)
        for name, title in (("recommender", "failing"), ("fraud-score", "canary")):
            open_model(browser, ui, name)
            browser.eventually("measured", "return document.querySelector('.plots').innerText")
            browser.picture(folder / f"page-{title}-{scheme}.png")
    sizes = {each.name: each.stat().st_size for each in folder.glob("page-*.png")}
    assert len(sizes) == 6
    assert {name: size for name, size in sizes.items() if size > PICTURE_LIMIT_BYTES} == {}


def test_the_keyboard_reaches_and_does_everything(browser: Browser, ui: Ui, fleet: Fleet) -> None:
    open_wall(browser, ui)
    browser.press("/")
    browser.write("forecast")
    browser.press("Enter")
    browser.reads("h2", "forecast")
    browser.reads("#model", "Conditions")
    assert browser.focused == "forecast"

    seen: list[str] = []
    while "Pause" not in seen:
        browser.press("Tab")
        assert has_visible_focus(browser), browser.focused
        seen.append(browser.focused)
        assert len(seen) < 10, seen
    browser.press("Enter")
    browser.reads("#ask", "Keep the operator from changing")
    assert browser.focused == "Cancel"
    browser.press("Escape")
    assert browser.focused == "Pause"
    assert spec_of(fleet, "forecast")["paused"] is False

    browser.press("Enter", "Tab")
    assert (browser.focused, has_visible_focus(browser)) == ("Pause", True)
    browser.press("Enter")
    browser.reads("#outcome", "is paused")
    assert spec_of(fleet, "forecast")["paused"] is True
    eventually("the button follows", lambda: "Resume" in browser.text("#model"))

    browser.press("Escape")
    browser.eventually("the wall", "return document.querySelector('#wall').checkVisibility()")
    assert browser.focused.startswith("forecast")
    order: list[str] = []
    browser.open("about:blank")
    open_wall(browser, ui)
    while not (order and order[-1].startswith("forecast")):
        browser.press("Tab")
        assert has_visible_focus(browser), browser.focused
        order.append(browser.focused)
        assert len(order) < 20, order
    assert order[:3] == ["Moorage", "Find models", f"{sum(STATES.values())} models"]
    fleet.api.patch("InferenceModel", "forecast", {"spec": {"paused": None}})


REOPENED = """
    const pause = () => [...document.querySelectorAll("#model button")]
        .find((each) => each.innerText === "Pause").click();
    const frame = () => new Promise(requestAnimationFrame);
    pause();
    document.querySelector("#ask").close("no");
    pause();
    await frame();
    await frame();
    document.querySelector("#ask .act").click();
"""


def test_a_late_end_of_one_question_does_not_answer_the_next(
    browser: Browser, ui: Ui, fleet: Fleet
) -> None:
    open_model(browser, ui, "forecast")

    browser.run(f"return (async () => {{ {REOPENED} }})()")

    browser.reads("#outcome", "is paused")
    fleet.api.patch("InferenceModel", "forecast", {"spec": {"paused": None}})


def test_a_canary_is_approved_and_aborted_after_a_question(
    browser: Browser, ui: Ui, fleet: Fleet
) -> None:
    open_model(browser, ui, "fraud-score")
    browser.reads("#model", "20 % of the requests go to revision")
    candidate = fleet.api.get("InferenceModel", "fraud-score")["status"]["revisions"]["candidate"]

    browser.click("#model button", "Approve step 1 of 2")
    browser.reads("#ask", f"revision {candidate}")
    browser.click("#ask button", "Cancel")
    assert "promote" not in spec_of(fleet, "fraud-score")["rollout"]
    browser.click("#model button", "Approve step 1 of 2")
    browser.click("#ask button", "Approve step 1 of 2")
    browser.reads("#outcome", f"step 1 of revision {candidate} is promoted")
    assert spec_of(fleet, "fraud-score")["rollout"]["promote"] == f"{candidate}/1"
    browser.reads("#model", "50 % of the requests go to revision")

    browser.click("#model button", "Abort")
    browser.click("#ask button", "Abort")
    browser.reads("#outcome", f"revision {candidate} is aborted")
    browser.reads("#model table", "aborted")
    browser.eventually("no canary", "return !document.querySelector('.share')")


def test_the_timeline_rolls_back_to_an_earlier_revision(
    browser: Browser, ui: Ui, fleet: Fleet
) -> None:
    open_model(browser, ui, "digits")
    browser.reads("#model table", "earlier")

    browser.click("#model table button", "Roll back to it")
    browser.click("#ask button", "Roll back to it")

    browser.reads("#outcome", "has the spec of revision")
    assert spec_of(fleet, "digits")["runtime"]["image"].endswith("/digits:1")
    browser.reads("#model table", "rolls out")
    fleet.run_pods("digits")
    browser.eventually(
        "the first one serves",
        "return !document.querySelector('#model table').innerText.includes('rolls out')",
        seconds=60,
    )
