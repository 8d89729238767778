import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.kube import field_ownership

DESIRED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "iris",
        "namespace": "default",
        "labels": {"a": "b"},
        "ownerReferences": [{"uid": "u1", "name": "iris", "controller": True}],
    },
    "spec": {
        "ports": [{"port": 8000, "name": "http"}],
        "selector": {"app": "iris"},
        "emptyDir": {},
        "args": ["x", "y"],
        "finalizers": ["one"],
        "unset": None,
    },
}
# As a kube-apiserver writes it: keys of list items in JSON, defaults among the keys.
FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:a": {}}, "f:ownerReferences": {'k:{"uid":"u1"}': {}}},
    "f:spec": {
        "f:ports": {
            'k:{"port":8000,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}},
        },
        "f:selector": {},
        "f:emptyDir": {},
        "f:args": {},
        "f:finalizers": {'v:"one"': {}},
    },
}


def lost(fields: dict[str, Any]) -> frozenset[str]:
    return field_ownership.lost(DESIRED, json.dumps(fields).encode())


def without(*path: str) -> dict[str, Any]:
    fields = json.loads(json.dumps(FIELDS))
    holder = fields
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return fields


def test_nothing_is_lost_when_every_field_is_ours() -> None:
    assert lost(FIELDS) == frozenset()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("f:metadata", "f:labels", "f:a"), ".metadata.labels"),
        (("f:metadata", "f:ownerReferences"), ".metadata.ownerReferences"),
        (("f:metadata", "f:ownerReferences", 'k:{"uid":"u1"}'), ".metadata.ownerReferences"),
        (("f:spec", "f:selector"), ".spec.selector"),
        (("f:spec", "f:emptyDir"), ".spec.emptyDir"),
        (("f:spec", "f:args"), ".spec.args"),
        (
            ("f:spec", "f:ports", 'k:{"port":8000,"protocol":"TCP"}', "f:name"),
            '.spec.ports[{"port":8000,"protocol":"TCP"}].name',
        ),
        (("f:spec",), ".spec"),
    ],
)
def test_a_field_that_is_no_longer_ours_is_lost(path: tuple[str, ...], expected: str) -> None:
    fields = without(*path)
    # The API server takes a mapping away together with its last owned member.
    if path == ("f:metadata", "f:labels", "f:a"):
        fields = without("f:metadata", "f:labels")
    if path[-1] == 'k:{"uid":"u1"}':
        fields = without("f:metadata", "f:ownerReferences")

    assert lost(fields) == {expected}


def test_a_removed_item_of_an_associative_list_is_lost() -> None:
    fields = json.loads(json.dumps(FIELDS))
    fields["f:spec"]["f:ports"] = {'k:{"port":9,"protocol":"TCP"}': {".": {}}}

    assert lost(fields) == {'.spec.ports[{"port":8000,"name":"http"}]'}


def test_a_long_item_is_shortened_in_its_path() -> None:
    # 80 bytes of JSON: 9 before the name, and the first half of its 36th character.
    desired = {"spec": {"ports": [{"name": "é" * 60}]}}
    fields = {"f:spec": {"f:ports": {'k:{"name":"other"}': {".": {}}}}}

    found = field_ownership.lost(desired, json.dumps(fields).encode())

    assert found == {
        '.spec.ports[{"name":"' + "é" * 35 + "\N{REPLACEMENT CHARACTER}]",
        ".metadata",
    }


def test_the_ownership_of_a_list_itself_matches_no_item() -> None:
    fields = json.loads(json.dumps(FIELDS))
    fields["f:spec"]["f:ports"] = {".": {}, **fields["f:spec"]["f:ports"]}
    fields["f:spec"]["f:finalizers"] = {".": {}, **fields["f:spec"]["f:finalizers"]}

    assert lost(fields) == frozenset()


def test_a_field_after_a_null_can_be_lost() -> None:
    desired = {"spec": {"unset": None, "replicas": 3}}

    assert ".spec.replicas" in field_ownership.lost(desired, b'{"f:spec":{"f:other":{}}}')


def test_a_removed_item_of_a_set_is_lost() -> None:
    fields = json.loads(json.dumps(FIELDS))
    fields["f:spec"]["f:finalizers"] = {'v:"other"': {}}

    assert lost(fields) == {".spec.finalizers['one']"}


def test_everything_is_lost_if_we_applied_nothing() -> None:
    assert field_ownership.lost(DESIRED, b"") == {".spec", ".metadata"}


def test_only_our_apply_to_the_object_itself_counts() -> None:
    body = {
        "metadata": {
            "managedFields": [
                {"manager": "moorage", "operation": "Update", "fieldsV1": {"f:x": {}}},
                {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:y": {}}},
                {
                    "manager": "moorage",
                    "operation": "Apply",
                    "subresource": "status",
                    "fieldsV1": {"f:z": {}},
                },
                {"manager": "moorage", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
            ]
        }
    }

    assert json.loads(field_ownership.fields_of(body, "moorage")) == {"f:spec": {}}
    assert field_ownership.fields_of({"metadata": {}}, "moorage") == b""


values = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.dictionaries(st.text(min_size=1, max_size=5), inner, min_size=1, max_size=4),
    max_leaves=10,
)
bodies = st.dictionaries(st.text(min_size=1, max_size=5), values, min_size=1, max_size=4).map(
    lambda spec: {"metadata": {"name": "x"}, "spec": spec}
)


def fields_for(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {f"f:{key}": fields_for(inner) for key, inner in value.items()}


@given(bodies)
def test_the_fields_of_an_apply_lose_nothing_of_it(body: dict[str, Any]) -> None:
    fields = {"f:spec": fields_for(body["spec"]), "f:metadata": {}}

    assert field_ownership.lost(body, json.dumps(fields).encode()) == frozenset()


@given(bodies, st.data())
def test_any_field_taken_by_another_manager_is_detected(
    body: dict[str, Any], data: st.DataObject
) -> None:
    spec = fields_for(body["spec"])
    name = data.draw(st.sampled_from(sorted(spec)))
    del spec[name]
    # A last member takes its mapping along.
    fields = {"f:spec": spec} if spec else {}

    assert field_ownership.lost(
        {"spec": body["spec"]}, json.dumps(fields).encode() if fields else b""
    )
