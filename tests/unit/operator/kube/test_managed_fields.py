"""List items that remain after an edit are found and taken over."""

import copy
from typing import Any

import pytest

from moorage_operator.kube.managed_fields import (
    find_leftovers,
    foreign_fields,
    inherited,
    taken_over,
)

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


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "i:1", "args": ["a"], **fields}


def pod_of(*entries: dict[str, Any], containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"metadata": {"managedFields": list(entries)}, "spec": {"containers": containers}}


def containers_of(*names: str) -> dict[str, Any]:
    keys = {f'k:{{"name":"{name}"}}': {".": {}} for name in names}
    return {"f:spec": {"f:containers": keys}}


@pytest.mark.parametrize(
    ("other", "is_leftover"),
    [
        (container("other"), True),
        (container("other", args=["b"]), False),
        (container("other", args=["a", "b"]), False),
        (container("other", args=[]), False),
        (container("other", args=["b"], image="i:2"), False),
    ],
)
def test_an_item_is_the_edited_one_if_more_than_half_of_its_fields_are_equal(other, is_leftover):
    found = pod_of(
        entry({"f:spec": {}}),
        entry(containers_of("other"), "kubectl-edit", "Update"),
        containers=[other],
    )

    leftovers = find_leftovers({"spec": {"containers": [container("runtime")]}}, found, "us")

    assert leftovers == ([("f:spec", "f:containers", 'k:{"name":"other"}')] if is_leftover else [])


def test_a_twin_beside_the_desired_item_is_kept():
    found = pod_of(
        entry(containers_of("runtime")),
        entry(containers_of("twin"), "kubectl-edit", "Update"),
        containers=[container("runtime"), container("twin")],
    )

    assert find_leftovers({"spec": {"containers": [container("runtime")]}}, found, "us") == []


def test_an_earlier_nested_item_is_a_leftover_if_others_own_a_part_of_it():
    runtime, earlier = 'k:{"name":"runtime"}', 'k:{"name":"OLD"}'

    def env(fields: dict[str, Any]) -> dict[str, Any]:
        item = {runtime: {"f:env": {earlier: fields}}}
        return {"f:spec": {"f:containers": item}}

    found = pod_of(
        entry(env({".": {}, "f:name": {}})),
        entry(env({"f:value": {}}), "kubectl-edit", "Update"),
        containers=[container("runtime", env=[{"name": "OLD", "value": "theirs"}])],
    )
    desired = {"spec": {"containers": [container("runtime", env=[{"name": "NEW"}])]}}

    path = ("f:spec", "f:containers", runtime, "f:env", earlier)
    assert find_leftovers(desired, found, "us") == [path]


def test_an_item_without_the_default_of_its_key_is_the_same_item():
    desired = {"spec": {"ports": [{"name": "http", "port": 8000}]}}
    shared = entry({"f:spec": {"f:ports": {HTTP: {"f:nodePort": {}}}}}, "kubectl", "Update")

    found = live(entry(owned(HTTP)), shared, ports=[port(8000, "http")])

    assert find_leftovers(desired, found, "us") == []


def test_an_item_that_another_manager_applied_can_be_a_leftover():
    theirs = entry(owned(TAKEN), "kubectl")
    ports = [port(7777, "http", 8000), port(8001, "grpc")]

    for entries in ([entry(owned(GRPC)), theirs], [theirs, entry(owned(GRPC))]):
        found = live(*entries, ports=ports)
        assert find_leftovers(DESIRED, found, "us") == [(*PORTS, TAKEN)]


def test_what_we_applied_to_the_status_is_not_what_we_applied_to_the_object():
    earlier = 'k:{"port":6000,"protocol":"TCP"}'
    status = {**entry({"f:status": {}}), "subresource": "status"}
    theirs = entry({"f:spec": {"f:ports": {earlier: {"f:nodePort": {}}}}}, "kubectl", "Update")

    found = live(
        status,
        entry(owned(earlier, GRPC)),
        theirs,
        ports=[port(6000, "http"), port(8001, "grpc")],
    )

    assert find_leftovers(DESIRED, found, "us") == [(*PORTS, earlier)]


def test_owners_that_others_add_are_kept():
    ours, theirs = 'k:{"uid":"ours"}', 'k:{"uid":"theirs"}'

    def owners(*keys: str) -> dict[str, Any]:
        return {"f:metadata": {"f:ownerReferences": {key: {".": {}} for key in keys}}}

    found = {
        "metadata": {
            "managedFields": [entry(owners(ours, theirs)), entry(owners(theirs), "them")],
            "ownerReferences": [{"uid": "ours"}, {"uid": "theirs"}],
        }
    }

    assert find_leftovers({"metadata": {"ownerReferences": [{"uid": "ours"}]}}, found, "us") == []


@pytest.mark.parametrize(
    ("desired", "found"),
    [
        ({"ports": [port(8000, "http")]}, {}),
        ({"ports": None}, {"ports": [port(7777, "http")]}),
        ({"ports": ["not an object"]}, {"ports": [port(7777, "http")]}),
        ({"ports": {"http": 8000}}, {"ports": [port(7777, "http")]}),
        ({"ports": [port(8000, "http")]}, {"ports": {"http": 8000}}),
        ({"selector": {"app": "iris"}}, {}),
        ({"selector": None}, {"selector": {"app": "iris"}}),
        ({"selector": "app"}, {"selector": {"app": "iris"}}),
    ],
)
def test_a_field_of_another_kind_has_no_leftovers(desired, found):
    entries = [entry(owned(HTTP)), entry(owned(TAKEN), "kubectl-edit", "Update")]

    body = {"metadata": {"managedFields": entries}, "spec": found}

    assert find_leftovers({"spec": desired}, body, "us") == []


def test_the_owner_of_an_item_that_is_gone_hides_no_leftover():
    gone = 'k:{"port":1,"protocol":"TCP"}'
    found = live(
        entry(owned(gone, GRPC)),
        entry(owned(TAKEN), "kubectl-edit", "Update"),
        ports=[port(7777, "http", 8000), port(8001, "grpc")],
    )

    assert find_leftovers(DESIRED, found, "us") == [(*PORTS, TAKEN)]


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


def test_others_keep_their_items_beside_a_taken_one():
    added = 'k:{"port":9090,"protocol":"TCP"}'

    after = taken_over(
        [entry(owned(GRPC)), entry(owned(TAKEN, added), "kubectl-edit", "Update")],
        [(*PORTS, TAKEN)],
        "us",
    )

    assert after[1]["fieldsV1"] == owned(added)


def test_an_entry_without_fields_owns_nothing():
    empty = {"manager": "them", "operation": "Update"}

    assert taken_over([empty, entry(owned(GRPC))], [(*PORTS, TAKEN)], "us") == [
        entry({"f:spec": {"f:ports": {**owned(GRPC)["f:spec"]["f:ports"], TAKEN: {".": {}}}}})
    ]


MARKED = {"f:metadata": {"f:annotations": {"f:mark": {}}}, "f:spec": {"f:a": {}}}


def test_the_fields_of_the_writer_of_an_annotation_are_inherited():
    other = entry({"f:metadata": {"f:annotations": {"f:note": {}}}}, "them", "Update")
    status = {**entry(MARKED, "them", "Update"), "subresource": "status"}
    tool = {**entry(MARKED, "tool", "Update"), "time": "2026-01-01T00:00:00Z"}
    before = copy.deepcopy([other, status, tool])

    after = inherited([other, status, tool], "mark", "us")

    assert [other, status, tool] == before
    assert after == [other, status, {**tool, "manager": "us", "operation": "Apply"}]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"manager": "them", "operation": "Update"}],
        [entry({"f:metadata": {}}, "them", "Update")],
        [{**entry(MARKED, "them", "Update"), "subresource": "status"}],
    ],
    ids=["no managers", "no fields", "no annotation", "a subresource"],
)
def test_nothing_is_inherited_where_nobody_wrote_the_annotation(entries):
    assert inherited(entries, "mark", "us") == []


def test_every_field_is_foreign_where_we_applied_nothing():
    found = live(entry({"f:spec": {"f:paused": {}}}, "them"), ports=[])

    assert foreign_fields(found, "us") == [("spec.paused", "them")]


def test_a_foreign_field_may_have_no_manager():
    nobody = {"operation": "Update", "fieldsV1": {"f:spec": {"f:paused": {}}}}

    assert foreign_fields(live(nobody, ports=[]), "us") == [("spec.paused", "")]


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ('k:{"containerPort":80,"protocol":"TCP"}', "spec.items[80]"),
        ('v:"one"', "spec.items[one]"),
        ("k:{}", "spec.items[]"),
    ],
)
def test_a_foreign_item_is_named_by_its_key(key, place):
    ours = entry({"f:spec": {"f:items": {}}})

    found = live(ours, entry({"f:spec": {"f:items": {key: {}}}}, "them"), ports=[])

    assert foreign_fields(found, "us") == [(place, "them")]


def test_an_item_itself_is_not_a_foreign_field():
    key = 'k:{"name":"runtime"}'
    ours = entry({"f:spec": {"f:containers": {key: {"f:image": {}}}}})
    theirs = {"f:containers": {key: {".": {}, "f:env": {}}}}

    found = live(ours, entry({"f:spec": theirs}, "them"), ports=[])

    assert foreign_fields(found, "us") == [("spec.containers[runtime].env", "them")]


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
