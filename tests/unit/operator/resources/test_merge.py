"""merged() and overlaid(): strategic merge patches of a pod template, for arbitrary input."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.resources.merge import merged, overlaid


@pytest.mark.parametrize(
    ("base", "overlay", "result"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 3}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}, {"a": {"c": 2, "d": 3}}),
        ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
        ({"a": {"b": 2}}, {"a": 1}, {"a": 1}),
        ({}, {"a": {"b": None}}, {"a": {}}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        (
            {"containers": [{"name": "r", "image": "i"}, {"name": "s"}]},
            {"containers": [{"name": "t"}, {"name": "r", "tty": True}]},
            {
                "containers": [
                    {"name": "r", "image": "i", "tty": True},
                    {"name": "s"},
                    {"name": "t"},
                ]
            },
        ),
        (  # a second container of one name is for the API server to refuse
            {"containers": [{"name": "r", "image": "i"}]},
            {"containers": [{"name": "r", "tty": True}, {"name": "r", "stdin": True}]},
            {
                "containers": [
                    {"name": "r", "image": "i", "tty": True},
                    {"name": "r", "stdin": True},
                ]
            },
        ),
        (
            {"initContainers": []},
            {"initContainers": [{"name": "s", "tty": True}, {"name": "s", "stdin": True}]},
            {"initContainers": [{"name": "s", "tty": True}, {"name": "s", "stdin": True}]},
        ),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "B"}]},
            {"env": [{"name": "A", "valueFrom": {}}, {"name": "C"}, "none"]},
            {"env": [{"name": "A", "valueFrom": {}}, {"name": "B"}, {"name": "C"}, "none"]},
        ),
        (
            {"volumeMounts": [{"name": "m", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "m", "mountPath": "/b"}]},
            {
                "volumeMounts": [
                    {"name": "m", "mountPath": "/a"},
                    {"name": "m", "mountPath": "/b"},
                ]
            },
        ),
        ({"containers": [{"name": "r"}]}, {"containers": "none"}, {"containers": "none"}),
        ({"containers": [1]}, {"containers": [{}]}, {"containers": [1, {}]}),
        (
            {"readinessProbe": {"httpGet": {"path": "/"}, "periodSeconds": 5}},
            {"readinessProbe": {"grpc": {"port": 1}}},
            {"readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 5}},
        ),
        (
            {"readinessProbe": {"httpGet": {"path": "/"}, "periodSeconds": 5}},
            {"readinessProbe": {"periodSeconds": 7}},
            {"readinessProbe": {"httpGet": {"path": "/"}, "periodSeconds": 7}},
        ),
        (  # a hook also has one handler
            {"preStop": {"sleep": {"seconds": 5}}},
            {"preStop": {"exec": {"command": ["drain"]}}},
            {"preStop": {"exec": {"command": ["drain"]}}},
        ),
        (
            {"preStop": {"exec": {"command": ["drain"]}}},
            {"preStop": {"sleep": {"seconds": 5}}},
            {"preStop": {"sleep": {"seconds": 5}}},
        ),
        (
            {"postStart": {"httpGet": {"path": "/"}}},
            {"postStart": {"tcpSocket": {"port": 1}}},
            {"postStart": {"tcpSocket": {"port": 1}}},
        ),
    ],
)
def test_an_overlay_is_merged(base, overlay, result):
    assert merged(base, overlay) == result


PROBED = {"name": "r", "livenessProbe": {"httpGet": {"path": "/"}, "periodSeconds": 5}}


@pytest.mark.parametrize(
    ("base", "lower", "upper"),
    [
        ({"a": 1, "b": 2, "c": 3}, {"b": 4, "c": 5}, {"c": 6}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": None}),
        ({"a": 1}, {"a": None}, {"a": 2}),
        ({"a": 1}, {"a": 2}, {"a": None}),
        ({"a": {"b": 1, "c": 2, "d": 3}}, {"a": {"b": None, "c": 4}}, {"a": {"d": None}}),
        ({"a": {"b": {"c": 1}}}, {"a": {"e": 1}}, {"a": {"b": {"c": None}}}),
        ({"a": 1}, {"a": 2}, {"a": {"b": 3}}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["c"]}),
        (
            {"env": [{"name": "A"}]},
            {"env": [{"name": "B"}]},
            {"env": [{"name": "A", "value": "1"}]},
        ),
        (
            {"containers": [PROBED]},
            {"containers": [{"name": "r", "image": "i"}, {"name": "s"}]},
            {"containers": [{"name": "r", "livenessProbe": None}, {"name": "s", "image": "j"}]},
        ),
        (
            {"containers": [PROBED]},
            {"containers": [{"name": "r", "livenessProbe": {"exec": {"command": ["a"]}}}]},
            {"containers": [{"name": "r", "livenessProbe": {"grpc": {"port": 1}}}]},
        ),
        (
            {"containers": [PROBED]},
            {"containers": [{"name": "r", "livenessProbe": {"timeoutSeconds": 2}}]},
            {"containers": [{"name": "r", "livenessProbe": {"periodSeconds": None}}]},
        ),
    ],
)
def test_an_overlay_of_two_does_what_both_do_in_turn(base, lower, upper):
    assert merged(base, overlaid(lower, upper)) == merged(merged(base, lower), upper)


names = st.sampled_from(["a", "containers", "env", "volumes", "readinessProbe", "httpGet", "name"])
values = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
templates = st.dictionaries(names, values, max_size=4)


@given(templates, templates)
def test_neither_input_is_changed_and_no_null_remains(base, overlay):
    before = copy.deepcopy((base, overlay))

    result = merged(base, overlay)

    assert (base, overlay) == before
    assert all(result.get(name) is not None for name in overlay if overlay[name] is not None)
    assert not any(name in result for name in overlay if overlay[name] is None)


@given(templates)
def test_an_empty_overlay_changes_nothing(base):
    assert merged(base, {}) == base
