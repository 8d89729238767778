"""InferenceRuntimes on a real API server: selection, edits that restart nothing, and turns."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import NotFoundError, UnprocessibleEntityError

from support.iris import IMPATIENT, expect_condition, image_of, message
from support.operator_cluster import (
    GROUP,
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    install_runtimes_crd,
    model,
    settle,
)

pytestmark = pytest.mark.integration

Make = Callable[..., str]
DISCOVERED_SECONDS = 60.0


@pytest.fixture(scope="module", autouse=True)
def installed(kubeconfig: Path, running_operator: OperatorProcess) -> None:
    """The CRD, which the operator finds while it runs."""
    install_runtimes_crd(kubeconfig)
    eventually(
        "the operator lists runtimes",
        lambda: running_operator.logged("(runtimes listed)"),
        seconds=DISCOVERED_SECONDS,
    )


@pytest.fixture
def broken() -> Iterator[ModelServer]:
    """A server whose model does not load."""
    with ModelServer() as made:
        made.ready, made.error = False, "file is corrupt"
        yield made


@pytest.fixture
def make(operator: OperatorProcess, api: Api, server: ModelServer) -> Iterator[Make]:
    """Creates or changes a runtime for the test's namespace only, and returns its name."""
    made: set[str] = set()

    def apply(name: str = "server", **spec: Any) -> str:
        name = f"{name}-{api.namespace}"
        mine = {"kubernetes.io/metadata.name": api.namespace}
        body = {
            "apiVersion": GROUP,
            "kind": "InferenceRuntime",
            "metadata": {"name": name},
            "spec": {
                "image": "example/server:1",
                "ports": {"http": server.port},
                "health": IMPATIENT,
                "allowedNamespaces": {"selector": {"matchLabels": mine}},
                **spec,
            },
        }
        made.add(name)
        api.apply(body)
        eventually("the runtime has a status", lambda: status_of(api, name, body))
        return name

    yield apply
    for name in made:
        with suppress(NotFoundError):
            api.delete("InferenceRuntime", name)


def status_of(api: Api, name: str, _: Any = None) -> dict[str, Any]:
    """The status of the current generation of a runtime, {} before it is written."""
    found = api.get("InferenceRuntime", name)
    status = found.get("status") or {}
    is_current = status.get("observedGeneration") == found["metadata"]["generation"]
    return status if is_current else {}


def images(api: Api, name: str = "iris") -> list[str]:
    """The image of the model's Deployment."""
    found = api.get("Deployment", name)
    return (
        [each["image"] for each in found["spec"]["template"]["spec"]["containers"]]
        if found
        else []
    )


def run_pods(kubelet: Kubelet, image: str, name: str = "iris") -> None:
    """Wait for a pod of the model with the image and run it."""
    pod = eventually(
        f"a pod of {image}",
        lambda: [each for each in kubelet.pods(name) if image_of(each) == image],
    )[0]
    kubelet.run(pod)


def served(api: Api, kubelet: Kubelet, runtime: str, name: str = "iris", **spec: Any) -> int:
    """A model of a runtime that is up to date; the generation of its Deployment."""
    api.apply(model(name, model={"name": "iris"}, runtime={"name": runtime}, **spec))
    run_pods(kubelet, "example/server:1", name)
    settle(api, name)
    return api.get("Deployment", name)["metadata"]["generation"]


def is_pending(api: Api, name: str = "iris") -> bool:
    return api.condition(name, "RuntimeUpdatePending")[0] == "True"


def test_a_model_uses_a_runtime_by_name_and_overrides_its_fields(
    api: Api, kubelet: Kubelet, make: Make
) -> None:
    name = make(args=["--a"], env=[{"name": "A", "value": "$(MOORAGE_MODEL_NAME)"}])
    api.apply(model("iris", runtime={"name": name, "args": ["--b"]}))
    run_pods(kubelet, "example/server:1")
    settle(api, "iris")

    container = kubelet.pods("iris")[0]["spec"]["containers"][0]
    assert container["args"] == ["--b"]
    names = [each["name"] for each in container["env"]]
    assert names.index("MOORAGE_MODEL_NAME") < names.index("A")
    assert api.get("InferenceModel", "iris")["status"]["runtime"]["name"] == name
    counts = eventually(
        "the runtime counts the model", lambda: status_of(api, name).get("models") == 1
    )
    assert counts
    assert status_of(api, name)["outdatedModels"] == 0


def test_a_format_selects_the_runtime_with_the_highest_priority(api: Api, make: Make) -> None:
    form = f"{api.namespace}-onnx"
    make("low", formats=[{"name": form, "priority": 1}])
    high = make("high", image="example/high:1", formats=[{"name": form, "priority": 2}])

    api.apply(model("iris", model={"format": form}))

    eventually("the image of the best", lambda: images(api) == ["example/high:1"])
    make("low", formats=[{"name": form, "priority": 2}])
    api.apply(model("rose", model={"format": form}))
    eventually("a tie", lambda: api.condition("rose", "Accepted") == ("False", "RuntimeAmbiguous"))
    assert high in message_of(api, "rose", "Accepted")


def test_a_new_default_applies_to_new_models_only(api: Api, make: Make) -> None:
    uri = {"uri": "configmap://iris"}
    api.apply(model("iris", model=uri))
    eventually("a Deployment", lambda: images(api) == ["runtime:test"])
    eventually("a status", lambda: api.condition("iris", "Accepted")[0] == "True")

    make("standard", image="example/default:1", default=True)
    api.apply(model("rose", model=uri))

    eventually("the default", lambda: images(api, "rose") == ["example/default:1"])
    eventually("pending", lambda: is_pending(api))
    assert images(api) == ["runtime:test"]
    second = make("second", image="example/default:2", default=True)
    found = eventually(
        "two defaults",
        lambda: [
            each
            for each in status_of(api, second).get("conditions", [])
            if each["reason"] == "SeveralDefaults"
        ],
    )
    assert "standard" in found[0]["message"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"runtime": {"name": "nobody"}}, "RuntimeNotFound"),
        ({"model": {"format": "nobody"}}, "NoRuntimeForFormat"),
    ],
    ids=["name", "format"],
)
def test_a_model_without_its_runtime_is_told_and_goes_on_serving(
    spec: dict[str, Any], reason: str, api: Api, kubelet: Kubelet, make: Make
) -> None:
    name = make()
    before = served(api, kubelet, name)

    api.apply(model("iris", **spec))

    said = expect_condition(api, "Accepted", "False", reason)
    assert "'nobody'" in said
    assert api.condition("iris")[0] == "True"
    assert api.get("Deployment", "iris")["metadata"]["generation"] == before
    api.apply(model("iris", model={"name": "iris"}, runtime={"name": name}))
    expect_condition(api, "UpToDate", "True", "RolloutComplete")
    assert api.get("Deployment", "iris")["metadata"]["generation"] == before


def test_a_namespace_that_is_not_allowed_is_allowed_once_it_has_the_label(
    api: Api, make: Make
) -> None:
    name = make(allowedNamespaces={"selector": {"matchLabels": {"team": api.namespace}}})
    api.apply(model("iris", runtime={"name": name}))
    said = expect_condition(api, "Accepted", "False", "RuntimeNotAllowed")
    assert name in said

    api.patch("Namespace", api.namespace, {"metadata": {"labels": {"team": api.namespace}}})

    eventually("a Deployment", lambda: images(api) == ["example/server:1"])


def test_an_invalid_runtime_is_reported_by_the_model(api: Api, make: Make) -> None:
    name = make(ports={"http": 8001})  # that of gRPC
    api.apply(model("iris", runtime={"name": name}))

    assert "ports.grpc" in expect_condition(api, "Accepted", "False", "RuntimeInvalid")


def test_an_edited_runtime_changes_a_model_at_its_next_edit(
    api: Api, kubelet: Kubelet, make: Make, operator: OperatorProcess
) -> None:
    name = make()
    before = served(api, kubelet, name)

    make(image="example/server:2")
    eventually("pending", lambda: is_pending(api))
    operator.stop()
    operator.start()
    operator.wait_ready()
    api.patch("InferenceModel", "iris", {"spec": {"replicas": 2}})  # scaling is no edit
    eventually("two pods", lambda: len(kubelet.pods("iris")) == 2)
    eventually("pending", lambda: is_pending(api))

    assert {image_of(each) for each in kubelet.pods("iris")} == {"example/server:1"}
    assert api.get("Deployment", "iris")["metadata"]["generation"] == before + 1
    assert api.condition("iris", "RuntimeUpdatePending") == ("True", "RuntimeChanged")
    assert name in message(api, "RuntimeUpdatePending")
    eventually("outdated", lambda: status_of(api, name).get("outdatedModels") == 1)
    moment = "2026-03-04T05:06:07Z"
    api.patch("InferenceModel", "iris", {"spec": {"rollout": {"restartedAt": moment}}})
    eventually("the new image", lambda: images(api) == ["example/server:2"])
    eventually("not pending", lambda: not is_pending(api))


def test_models_follow_automatically_one_after_the_other(
    api: Api, kubelet: Kubelet, make: Make
) -> None:
    name = make(updatePolicy="Automatic")
    for each in ("iris", "rose"):
        served(api, kubelet, name, each)

    make(updatePolicy="Automatic", image="example/server:2")
    eventually(
        "the first follows", lambda: "example/server:2" in images(api) + images(api, "rose")
    )
    first, second = ("iris", "rose") if images(api) == ["example/server:2"] else ("rose", "iris")
    eventually("the second waits", lambda: is_pending(api, second))
    eventually("a new pod", lambda: len(kubelet.pods(first)) == 2)
    assert images(api, second) == ["example/server:1"]

    run_pods(kubelet, "example/server:2", first)
    eventually("the second follows", lambda: images(api, second) == ["example/server:2"])
    run_pods(kubelet, "example/server:2", second)
    for each in ("iris", "rose"):
        settle(api, each)
    eventually("none outdated", lambda: status_of(api, name).get("outdatedModels") == 0)


def test_a_model_that_fails_with_an_edited_runtime_holds_the_others_until_it_is_paused(
    api: Api, kubelet: Kubelet, make: Make, broken: ModelServer
) -> None:
    name = make(updatePolicy="Automatic")
    for each in ("iris", "rose"):
        served(api, kubelet, name, each)

    image = "example/server:2"
    make(updatePolicy="Automatic", image=image, ports={"http": broken.port})
    eventually("the first follows", lambda: image in images(api) + images(api, "rose"))
    first, second = ("iris", "rose") if images(api) == [image] else ("rose", "iris")
    pod = eventually(
        "a pod", lambda: [each for each in kubelet.pods(first) if image_of(each) == image]
    )[0]
    kubelet.run(pod, ready=False)

    holder = f"update held: model {api.namespace}/{first} failed with RolledBack"
    eventually("the update is held", lambda: holder in update_held(api, name)[1])
    assert update_held(api, name)[0] == "AwaitingModel"
    eventually("the second knows", lambda: holder in pending_message(api, second))
    assert images(api, second) == ["example/server:1"]

    api.patch("InferenceModel", first, {"spec": {"paused": True}})

    eventually("the second follows", lambda: images(api, second) == [image])
    eventually("no longer held", lambda: update_held(api, name) == ("", ""))


def update_held(api: Api, name: str) -> tuple[str, str]:
    """The reason and the message of the runtime's condition UpdateHeld, "" without it."""
    for each in status_of(api, name).get("conditions", []):
        if each["type"] == "UpdateHeld":
            return each["reason"], each["message"]
    return "", ""


def pending_message(api: Api, name: str) -> str:
    """The message of the model's condition RuntimeUpdatePending, "" without it."""
    return message_of(api, name, "RuntimeUpdatePending")


def message_of(api: Api, name: str, type_: str = "Ready") -> str:
    """The message of a condition of a model, "" without it."""
    conditions = api.get("InferenceModel", name).get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == type_), "")


def test_a_deleted_runtime_stops_no_model(api: Api, kubelet: Kubelet, make: Make) -> None:
    name = make()
    before = served(api, kubelet, name)

    api.delete("InferenceRuntime", name)

    eventually("pending", lambda: is_pending(api))
    assert api.condition("iris", "RuntimeUpdatePending") == ("True", "RuntimeNotFound")
    assert api.condition("iris", "UpToDate")[0] == "True"
    assert api.get("Deployment", "iris")["metadata"]["generation"] == before


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"maxConcurrentRollouts": 2}, "updatePolicy"),
        ({"protocol": "REST"}, "protocol"),
        ({"formats": [{"name": "A"}]}, "formats"),
        ({"allowedNamespaces": {}}, "selector"),
    ],
)
def test_the_api_server_refuses_an_invalid_runtime(
    spec: dict[str, Any], word: str, make: Make
) -> None:
    with pytest.raises(UnprocessibleEntityError, match=word):
        make("bad", **spec)


def test_a_runtime_can_be_opened_to_all_namespaces_with_server_side_apply(api, make):
    name = make()

    make(allowedNamespaces={"selector": {}})

    assert api.get("InferenceRuntime", name)["spec"]["allowedNamespaces"] == {"selector": {}}


def test_a_removed_kind_is_reported_until_it_is_installed_again(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, make: Make
) -> None:
    name = make()
    before = served(api, kubelet, name)
    noted = ("moorage_watch_restarts_total", 'resource="inferenceruntimes"', 'reason="failed"')

    api.delete("CustomResourceDefinition", "inferenceruntimes.moorage.dev")
    eventually("noticed", lambda: "not installed" in pending_message(api, "iris"))
    failures = operator.metric(*noted)
    api.apply(model("rose", runtime={"name": name}))
    eventually("named", lambda: "not installed" in message_of(api, "rose"))
    assert api.condition("rose") == ("False", "RuntimeNotFound")

    install_runtimes_crd(api.kubeconfig)
    again = Api(api.kubeconfig, api.namespace)
    eventually(
        "listed", lambda: "no InferenceRuntime exists" in message_of(again, "rose"), seconds=40
    )
    assert operator.metric(*noted) == failures
    assert api.get("Deployment", "iris")["metadata"]["generation"] == before
    assert api.condition("iris", "UpToDate")[0] == "True"
