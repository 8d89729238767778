"""Models behind an Ingress on a real API server; the test simulates the Ingress controller."""

from typing import Any

import pytest

from support.iris import expect_condition, message
from support.operator_cluster import Api, OperatorProcess, eventually, model

pytestmark = pytest.mark.integration

ANNOTATIONS = {"cert-manager.io/cluster-issuer": "letsencrypt"}
INGRESS = {"className": "nginx", "annotations": ANNOTATIONS, "tlsSecretName": "iris-tls"}
ROUTE = {"hostnames": ["iris.example.com"], "ingress": INGRESS}


def iris(**route: Any) -> dict[str, Any]:
    return model(
        "iris", runtime={"image": "example/server:1"}, **({"route": route} if route else {})
    )


def status(api: Api) -> dict[str, Any]:
    return api.get("InferenceModel", "iris")["status"]


def spec(api: Api) -> dict[str, Any]:
    return api.get("Ingress", "iris").get("spec", {})


def serve(api: Api, *addresses: str) -> None:
    """Report these addresses, as an Ingress controller does."""
    points = [{"ip": each} for each in addresses]
    api.patch_status("Ingress", "iris", {"loadBalancer": {"ingress": points}})


def test_an_ingress_exposes_the_model_while_it_has_an_address(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(iris(**ROUTE))
    found = expect_condition(api, "RouteAccepted", "Unknown", "AwaitingIngress")
    eventually("written", lambda: "class nginx" in message(api, "RouteAccepted"))
    assert "Ingress" in found
    assert "url" not in status(api)
    (rule,) = spec(api)["rules"]
    assert rule["host"] == "iris.example.com"
    assert rule["http"]["paths"][0]["backend"]["service"] == {
        "name": "iris",
        "port": {"name": "http"},
    }
    assert spec(api)["tls"] == [{"hosts": ["iris.example.com"], "secretName": "iris-tls"}]
    annotations = api.get("Ingress", "iris")["metadata"]["annotations"]
    assert ANNOTATIONS.items() <= annotations.items()

    serve(api, "192.0.2.7")
    assert "192.0.2.7" in expect_condition(api, "RouteAccepted", "True", "IngressReady")
    assert status(api)["url"] == "https://iris.example.com"
    urls = [each["url"] for each in status(api)["externalEndpoints"]]
    assert urls == ["https://iris.example.com/v2/models/iris/infer"]
    serve(api)
    expect_condition(api, "RouteAccepted", "Unknown", "AwaitingIngress")
    assert "url" not in status(api)
    assert "externalEndpoints" not in status(api)

    api.apply(iris())
    eventually("removed", lambda: not api.get("Ingress", "iris"))
    eventually("no condition", lambda: api.condition("iris", "RouteAccepted") == ("", ""))


def test_without_host_names_the_url_has_the_address_of_the_ingress(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(iris(ingress={}))
    (rule,) = eventually("an Ingress", lambda: spec(api).get("rules"))
    assert "host" not in rule

    serve(api, "192.0.2.7", "2001:db8::7")

    expect_condition(api, "RouteAccepted", "True", "IngressReady")
    assert status(api)["url"] == "http://192.0.2.7"
    urls = [each["url"] for each in status(api)["externalEndpoints"]]
    assert urls[1].startswith("http://[2001:db8::7]/v2/")


def test_an_ingress_stands_in_for_a_gateway_without_the_gateway_api(
    operator: OperatorProcess, api: Api
) -> None:
    both = {**ROUTE, "parentRefs": [{"name": "web"}]}
    api.apply(iris(**both))
    eventually("an Ingress", lambda: spec(api))
    serve(api, "192.0.2.7")
    expect_condition(api, "RouteAccepted", "True", "IngressReady")

    canary = iris(**both)
    canary["spec"]["rollout"] = {"strategy": "Canary"}
    api.apply(canary)

    expect_condition(api, "RouteAccepted", "False", "GatewayAPIMissing")
    assert "the Ingress carries the requests" in message(api, "RouteAccepted")
    assert spec(api)
    assert "url" not in status(api)

    del both["ingress"]
    api.apply(iris(**both))
    eventually("no Ingress", lambda: not api.get("Ingress", "iris"))


def test_without_its_class_an_ingress_gets_the_default_class(
    operator: OperatorProcess, api: Api
) -> None:
    classes = api.of("IngressClass")
    default = {"ingressclass.kubernetes.io/is-default-class": "true"}
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": "by-default", "annotations": default},
        "spec": {"controller": "example.com/ingress"},
    }
    classes.create(body=body)
    try:
        api.apply(iris(ingress={"className": "nginx"}))
        eventually("an Ingress", lambda: spec(api).get("ingressClassName") == "nginx")

        api.apply(iris(ingress={}))

        eventually("default", lambda: spec(api).get("ingressClassName") == "by-default")
        made = api.get("Ingress", "iris")["metadata"]["uid"]
        api.apply(iris(ingress={"annotations": ANNOTATIONS}))
        eventually(
            "annotations",
            lambda: (
                ANNOTATIONS.items()
                <= api.get("Ingress", "iris")["metadata"]["annotations"].items()
            ),
        )
        assert api.get("Ingress", "iris")["metadata"]["uid"] == made
        assert spec(api)["ingressClassName"] == "by-default"
    finally:
        classes.delete(name="by-default")


def test_an_edited_ingress_is_restored(operator: OperatorProcess, api: Api) -> None:
    api.apply(iris(**ROUTE))
    planned = eventually("an Ingress", lambda: spec(api))
    elsewhere = {"service": {"name": "other", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": elsewhere}
    rules = [{"host": "shop.example.com", "http": {"paths": [path]}}]

    api.patch("Ingress", "iris", {"spec": {"rules": rules, "tls": None}})

    eventually("as planned", lambda: spec(api) == planned)


def test_an_ingress_of_somebody_else_is_left_alone(operator: OperatorProcess, api: Api) -> None:
    theirs = {"service": {"name": "shop", "port": {"number": 80}}}
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "iris"},
        "spec": {"defaultBackend": theirs},
    }
    api.apply(body)

    api.apply(iris(**ROUTE))

    expect_condition(api, "Accepted", "False", "NameConflict")
    assert "Ingress 'iris' already exists" in message(api, "Accepted")
    expect_condition(api, "RouteAccepted", "Unknown", "AwaitingIngress")
    assert spec(api) == {"defaultBackend": theirs}
    api.delete("Ingress", "iris")
    eventually("ours", lambda: "rules" in spec(api), seconds=40)
