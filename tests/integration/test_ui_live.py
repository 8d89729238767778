"""`moorage ui` in a real browser with many models, hostile texts and lost connections.

The control plane has no operator, so the tests write the statuses.
"""

import copy
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiextensionsV1Api, CustomObjectsApi
from kubernetes.config import new_client_from_config
from kubernetes.dynamic.exceptions import NotFoundError, ResourceNotFoundError

from support.browser import Browser
from support.operator_cluster import CRD, Api, control_plane, eventually, kill_api_server
from support.ui import Ui

pytestmark = [pytest.mark.integration, pytest.mark.browser, pytest.mark.timeout(400)]

COUNT = 2000
NAMESPACE = "default"
WRITERS = 8
# Without a subresource, each write of a status makes another generation of the model.
GENERATION = 1000
WORDS = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\u202egnp.exe\u2066'
# Counts what the page does to the wall; in place before its own script runs.
COUNTER = """
window.counts = { added: 0, removed: 0, records: 0 };
new MutationObserver((records) => {
  for (const each of records) {
    if (!each.target.closest?.("#models")) continue;
    window.counts.records += 1;
    if (each.target.id !== "models") continue;
    window.counts.added += each.addedNodes.length;
    window.counts.removed += each.removedNodes.length;
  }
}).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
"""


def status(number: int, *, ready: bool, message: str = "The model serves.") -> dict[str, Any]:
    reason = "Serving" if ready else "ImagePullBackOff"
    conditions = [
        {
            "type": type_,
            "status": str(ready),
            "reason": reason,
            "message": message,
            "observedGeneration": GENERATION,
            "lastTransitionTime": "2026-03-04T05:06:07Z",
        }
        for type_ in ("ModelReady", "Ready", "UpToDate")
    ]
    replica = {"pod": f"model-{number}-0", "ready": ready, "modelReady": ready}
    replica |= {"revision": "4c1f0a9d2e", "restarts": 0}
    if not ready:
        replica |= {"reason": reason, "message": message}
    return {
        "observedGeneration": GENERATION,
        "replicaSummary": "1/1" if ready else "0/1",
        "protocol": {"declared": "OpenInference"},
        "conditions": conditions,
        "replicaStatuses": [replica],
    }


def body(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": f"model-{number:04}"},
        "spec": {"runtime": {"image": "example/server:1"}},
        "status": status(number, ready=number % 20 != 0, message=f"image {number} is missing"),
    }


@pytest.fixture(scope="module")
def plane(window: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kubeconfig; the kind has no subresource, so a model is written with its status."""
    del window
    folder = tmp_path_factory.mktemp("bare")
    try:
        control_plane("up", folder)
        client = new_client_from_config(str(folder / "kubeconfig"))
        crd = copy.deepcopy(yaml.safe_load(CRD.read_text()))
        for version in crd["spec"]["versions"]:
            del version["subresources"]
        ApiextensionsV1Api(client).create_custom_resource_definition(crd)
        yield folder / "kubeconfig"
    finally:
        control_plane("down", folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def api(plane: Path) -> Api:
    def served() -> Api | None:
        found = Api(plane, NAMESPACE)
        try:
            found.list("InferenceModel")
        except (NotFoundError, ResourceNotFoundError):
            return None  # the API server lists a new kind a moment before it serves its objects
        return found

    return eventually("the kind is served", served)


@pytest.fixture(scope="module")
def crowd(api: Api) -> None:
    """The models."""
    client = new_client_from_config(str(api.kubeconfig))
    client.configuration.connection_pool_maxsize = WRITERS
    objects: Any = CustomObjectsApi(client)

    def create(number: int) -> None:
        objects.create_namespaced_custom_object(
            "moorage.dev", "v1alpha1", NAMESPACE, "inferencemodels", body(number)
        )

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(create, range(COUNT)))


@pytest.fixture
def ui(crowd: None, api: Api) -> Iterator[Ui]:
    with Ui(api.kubeconfig, NAMESPACE) as made:
        yield made


@pytest.fixture
def wall(browser: Browser, ui: Ui) -> Iterator[Browser]:
    """The browser with the wall of all models; a reload would remove the marker."""
    script = browser.command("Page.addScriptToEvaluateOnNewDocument", source=COUNTER)
    browser.open(ui.url)
    browser.reads("#states", f"{COUNT} models", seconds=60)
    browser.run("window.marker = 1")
    yield browser
    assert browser.run("return window.marker") == 1
    browser.command("Page.removeScriptToEvaluateOnNewDocument", **script)


def counts(browser: Browser) -> dict[str, int]:
    """What has been done to the wall since the last call."""
    return browser.run("""const found = window.counts;
        window.counts = { added: 0, removed: 0, records: 0 }; return found""")


def write(api: Api, number: int, changed: dict[str, Any]) -> None:
    api.patch("InferenceModel", f"model-{number:04}", {"status": changed})


def test_each_model_is_drawn_once_and_only_those_in_the_window_are_laid_out(
    wall: Browser,
) -> None:
    assert wall.text("#states").split("\n") == ["2000 models", "100 failing", "1900 serving"]
    drawn = counts(wall)
    assert (drawn["added"], drawn["removed"]) == (COUNT, 0)
    laid_out = wall.run("""return [...document.querySelectorAll("#models strong")]
        .filter((each) => each.checkVisibility({ contentVisibilityAuto: true })).length""")
    assert 6 <= laid_out <= 300


def test_an_event_changes_one_element_and_moves_it_at_most(wall: Browser, api: Api) -> None:
    counts(wall)

    write(api, 1999, status(1999, ready=True, message="It serves well."))
    write(api, 1998, status(1998, ready=False, message="a disk is full"))
    wall.reads("#states", "101 failing")

    changed = counts(wall)
    assert (changed["added"], changed["removed"]) == (1, 1)
    assert 2 <= changed["records"] <= 10
    assert wall.run("return document.querySelectorAll('#models li')[100].textContent").startswith(
        "model-1998"
    )
    write(api, 1998, status(1998, ready=True))
    wall.reads("#states", "100 failing")


def test_a_filter_hides_models_and_draws_none(wall: Browser) -> None:
    counts(wall)

    wall.press("/")
    wall.write("model-19")

    shown = "return [...document.querySelectorAll('#models li')].filter((each) => !each.hidden)"
    assert wall.run(f"{shown}.length") == 100
    changed = counts(wall)
    assert (changed["added"], changed["removed"]) == (0, 0)
    assert changed["records"] == COUNT - 100  # each hidden one once, whatever was typed
    wall.press("Escape")
    assert wall.run(f"{shown}.length") == COUNT


def test_scrolling_draws_nothing(wall: Browser) -> None:
    counts(wall)

    wall.run("scrollTo(0, document.documentElement.scrollHeight)")
    wall.eventually(
        "the last model is in the window",
        """scrollTo(0, document.documentElement.scrollHeight);
        const box = document.querySelector("#models li:last-child strong").getBoundingClientRect();
        return box.top > 0 && box.bottom < innerHeight""",
    )

    assert counts(wall)["records"] == 0


def test_a_hostile_text_stays_a_text(wall: Browser, api: Api, ui: Ui) -> None:
    write(api, 0, status(0, ready=False, message=WORDS))
    wall.reads("#models", "window.hacked=1")

    assert "\u202e" not in wall.text("#models")
    wall.open(ui.url_of(NAMESPACE, "model-0000"))
    wall.reads(".cause", '<img src=x onerror="window.hacked=1">')
    assert not {"\u202e", "\u2066"} & set(wall.text("body"))
    assert wall.run("return window.hacked ?? document.querySelectorAll('img').length") == 0
    # a mistake that inserted text as HTML would be refused as well
    insert = "try { document.body.innerHTML = '<b>x</b>' } catch (error) { return error.name }"
    assert wall.run(insert) == "TypeError"
    assert any("TrustedHTML" in each for each in wall.complaints())
    wall.press("Escape")
    wall.reads("#states", "models")


def test_the_page_says_that_the_api_server_is_lost_and_follows_it_again(
    wall: Browser, api: Api
) -> None:
    kill_api_server(api.kubeconfig.parent)
    wall.reads("#live", "Not live:")
    assert "2000 models" in wall.text("#states")
    counts(wall)

    control_plane("up", api.kubeconfig.parent)
    wall.eventually("live", "return document.querySelector('#live').innerText === 'live'")
    write(api, 40, status(40, ready=False, message="after the restart"))
    wall.reads("#models", "after the restart")
    assert counts(wall)["records"] < 10


def test_the_page_says_that_the_program_is_lost_and_follows_the_next_one(
    wall: Browser, ui: Ui, api: Api
) -> None:
    ui.stop()
    wall.reads("#live", "Not live: moorage ui has ended")
    write(api, 60, status(60, ready=False, message="while it was away"))

    ui.start()
    wall.reads("#live", "open the URL that moorage ui printed")
    with wall.another_window():
        wall.open(ui.url)
        wall.reads("#states", f"{COUNT} models")
    wall.eventually("live", "return document.querySelector('#live').innerText === 'live'")
    wall.reads("#models", "while it was away")

    ui.stop()
    ui.start()
    wall.reads("#live", "Not live:")
    wall.open(ui.url)  # only the fragment differs
    wall.eventually("live", "return document.querySelector('#live').innerText === 'live'")
    assert json.dumps(wall.run("return location.hash")) == '""'
    wall.run("window.marker = 1")  # the page was loaded again


def test_a_page_never_continues_with_another_cluster(
    wall: Browser, ui: Ui, api: Api, tmp_path: Path
) -> None:
    wall.reads("#cluster", "https://127.0.0.1:")
    other = tmp_path / "other"
    other.write_text(api.kubeconfig.read_text().replace("127.0.0.1", "localhost"))
    ui.stop()
    with Ui(other, api.namespace, ui.port) as another:
        wall.reads("#live", "open the URL that moorage ui printed")
        with wall.another_window():
            wall.open(another.url)
            wall.reads("#states", f"{COUNT} models")
            wall.reads("#cluster", "//localhost:")
        wall.reads("#live", "open the URL that moorage ui printed")
        wall.reads("#cluster", "//127.0.0.1:")

        wall.open(another.url)  # in the same tab, where only the fragment differs
        wall.reads("#cluster", "//localhost:")
        wall.eventually("live", "return document.querySelector('#live').innerText === 'live'")
        wall.run("window.marker = 1")  # the page was loaded again
    ui.start()


def test_the_page_says_that_the_program_is_suspended(wall: Browser, ui: Ui) -> None:
    with ui.suspended():
        wall.reads("#live", "Not live: moorage ui does not answer", seconds=40)
    wall.eventually(
        "live", "return document.querySelector('#live').innerText === 'live'", seconds=40
    )
