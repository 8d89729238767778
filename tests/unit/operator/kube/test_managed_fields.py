"""List items that remain after an edit are found and taken over."""

import copy
from typing import Any

import pytest

from moorage_operator.kube.managed_fields import find_leftovers, foreign_fields, taken_over

HTTP, TAKEN = 'k:{"port":8000,"protocol":"TCP"}', 'k:{"port":7777,"protocol":"TCP"}'
GRPC = 'k:{"port":8001,"protocol":"TCP"}'
PORTS = ("f:spec", "f:ports")


def port(number: int, name: str, target: int = 0) -> dict[str, Any]:
    return {"name": name, "port": number, "targetPort": target or number, "protocol": "TCP"}


def owned(*keys: str, **fields: Any) -> dict[str, Any]:
    items = {key: {".": {}, "f:name": {}, "f:port": {}} for key in keys}
    return {"f:spec": {"f:ports": {**items, **fields}}}


def entry(fields: dict[str, Any], manager: str = "us", operation: str = "Apply") -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def live(*entries: dict[str, Any], ports: list[dict[str, Any]]) -> dict[str, Any]:
    return {"metadata": {"managedFields": list(entries)}, "spec": {"ports": ports}}


DESIRED = {
    "metadata": {"name": "iris"},
    "spec": {"ports": [port(8000, "http"), port(8001, "grpc")]},
}


def test_an_item_whose_key_was_edited_is_a_leftover():
    found = live(
        entry(owned(GRPC)),
        entry(owned(TAKEN), "kubectl-edit", "Update"),
        ports=[port(7777, "http", 8000), port(8001, "grpc")],
    )

    assert find_leftovers(DESIRED, found, "us") == [(*PORTS, TAKEN)]


def test_an_item_added_by_others_is_kept():
    added = 'k:{"port":9090,"protocol":"TCP"}'
    ports = [port(9090, "metrics"), port(8001, "grpc")]
    theirs = entry(owned(added), "kubectl-edit", "Update")

    beside = live(entry(owned(HTTP, GRPC)), theirs, ports=[*ports, port(8000, "http")])
    in_place = live(entry(owned(GRPC)), theirs, ports=ports)

    assert find_leftovers(DESIRED, beside, "us") == []
    assert find_leftovers(DESIRED, in_place, "us") == []


def test_an_earlier_item_is_a_leftover_if_others_own_a_part_of_it():
    earlier = 'k:{"port":6000,"protocol":"TCP"}'
    ports = [port(6000, "http"), port(8001, "grpc")]
    theirs = entry({"f:spec": {"f:ports": {earlier: {"f:nodePort": {}}}}}, "kubectl", "Update")

    shared = live(entry(owned(earlier, GRPC)), theirs, ports=ports)
    ours_alone = live(entry(owned(earlier, GRPC)), ports=ports)

    assert find_leftovers(DESIRED, shared, "us") == [(*PORTS, earlier)]
    assert find_leftovers(DESIRED, ours_alone, "us") == []  # the apply removes it by itself


def test_leftovers_are_found_in_nested_lists():
    key = 'k:{"name":"runtime"}'
    taken = 'k:{"containerPort":7777,"protocol":"TCP"}'
    desired = {
        "spec": {
            "containers": [{"name": "runtime", "ports": [{"name": "http", "containerPort": 1}]}]
        }
    }
    found = {
        "metadata": {
            "managedFields": [
                entry({"f:spec": {"f:containers": {key: {".": {}}}}}),
                entry(
                    {"f:spec": {"f:containers": {key: {"f:ports": {taken: {".": {}}}}}}},
                    "kubectl-edit",
                    "Update",
                ),
            ]
        },
        "spec": {
            "containers": [
                {
                    "name": "runtime",
                    "ports": [{"name": "http", "containerPort": 7777, "protocol": "TCP"}],
                }
            ]
        },
    }

    path = ("f:spec", "f:containers", key, "f:ports", taken)
    # The two say the same name, and the default protocol is the live one's: half is not enough.
    assert find_leftovers(desired, found, "us") == []
    desired["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"
    assert find_leftovers(desired, found, "us") == [path]


def test_a_renamed_container_is_distinguished_from_a_sidecar():
    runtime = {
        "name": "runtime",
        "image": "i:1",
        "args": ["a"],
        "resources": {"limits": {"cpu": 1}},
    }
    renamed = {**runtime, "name": "other", "terminationMessagePath": "/dev/termination-log"}
    sidecar = {"name": "proxy", "image": "p:1"}
    keys = {each["name"]: f'k:{{"name":"{each["name"]}"}}' for each in (renamed, sidecar)}
    theirs = {"f:spec": {"f:containers": {key: {".": {}} for key in keys.values()}}}
    found = {
        "metadata": {"managedFields": [entry({"f:spec": {}}), entry(theirs, "kubectl", "Update")]},
        "spec": {"containers": [renamed, sidecar]},
    }

    leftovers = find_leftovers({"spec": {"containers": [runtime]}}, found, "us")

    assert leftovers == [("f:spec", "f:containers", keys["other"])]


@pytest.mark.parametrize("owner", [entry(owned(GRPC), "us", "Update"), entry(owned(GRPC), "them")])
def test_an_object_that_was_never_applied_has_no_leftovers(owner):
    assert find_leftovers(DESIRED, live(owner, ports=[port(7777, "http")]), "us") == []


def test_a_taken_item_has_one_owner_and_others_are_unchanged():
    ours = entry(owned(GRPC))
    theirs = entry(owned(TAKEN), "kubectl-edit", "Update")
    more = entry(
        {"f:metadata": {"f:labels": {}}, "f:spec": {"f:ports": {TAKEN: {"f:nodePort": {}}}}},
        "them",
        "Update",
    )
    before = copy.deepcopy([ours, theirs, more])

    after = taken_over([ours, theirs, more], [(*PORTS, TAKEN)], "us")

    assert [ours, theirs, more] == before
    assert [each["manager"] for each in after] == ["us", "them"]
    assert after[0]["fieldsV1"]["f:spec"]["f:ports"] == {
        GRPC: {".": {}, "f:name": {}, "f:port": {}},
        TAKEN: {".": {}},
    }
    # An empty set of fields would own `spec` as a whole.
    assert after[1]["fieldsV1"] == {"f:metadata": {"f:labels": {}}}


def test_foreign_fields_are_listed_with_their_managers():
    runtime = 'k:{"name":"runtime"}'
    ours = {"f:template": {"f:spec": {"f:containers": {runtime: {".": {}, "f:image": {}}}}}}
    pod = {
        "f:nodeSelector": {},
        "f:containers": {runtime: {"f:image": {}, "f:env": {'k:{"name":"A"}': {}}}},
    }
    restart = {"f:annotations": {"f:kubectl.kubernetes.io/restartedAt": {}}}
    theirs = {"f:template": {"f:spec": pod, "f:metadata": restart}}
    status = {
        **entry({"f:spec": {"f:other": {}}}, "controller", "Update"),
        "subresource": "status",
    }
    found = live(
        entry({"f:spec": ours}),
        entry({"f:spec": theirs}, "kubectl-edit", "Update"),
        entry({"f:spec": {"f:paused": {}}}, "kubectl-rollout", "Update"),
        entry({"f:spec": {"f:ours": {}}}, "us", "Update"),
        status,
        ports=[],
    )

    assert foreign_fields(found, "us") == [
        ("spec.template.spec.nodeSelector", "kubectl-edit"),
        ("spec.template.spec.containers[runtime].env", "kubectl-edit"),
        ("spec.paused", "kubectl-rollout"),
    ]
