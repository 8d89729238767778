"""Which InferenceRuntime a model gets, and what it is told if it gets none."""

import pytest

from moorage_operator.api.fields import Problem
from moorage_operator.decide.runtimes.selection import (
    could_use,
    defaults_at_once,
    names_a_runtime,
    select,
    takes_none,
)
from moorage_operator.values.runtimes import Runtimes
from support.operator_runtimes import DEFAULT, LABELS, TRITON, runtime, runtimes
from support.operator_values import model

RISK = {"selector": {"matchLabels": {"team": "risk"}}}
OTHER = runtime("other", image="other:1", formats=[{"name": "onnx", "priority": 1}])
SAME = runtime("same", image="same:1", formats=[{"name": "onnx", "priority": 2}])
RISKY = runtime("risky", image="risky:1", allowedNamespaces=RISK, formats=[{"name": "pkl"}])
SECOND = runtime("second", default=True)
BROKEN = runtime("broken", image="x", protocol="REST", formats=[{"name": "bad"}])


@pytest.mark.parametrize(
    ("spec", "listed", "namespace", "expected"),
    [
        ({"runtime": {"name": "triton"}}, [TRITON, OTHER], "ns", "triton"),
        ({"model": {"format": "onnx"}}, [OTHER, TRITON], "ns", "triton"),
        ({"model": {"format": "onnx"}}, [OTHER, DEFAULT], "ns", "other"),
        (
            {"runtime": {"name": "other"}, "model": {"format": "onnx"}}, [OTHER, TRITON],
            "ns", "other",
        ),
        ({}, [TRITON, DEFAULT], "ns", "standard"),
        ({}, [TRITON], "ns", ""),
        ({}, [], "ns", ""),
        ({"runtime": {"image": "mine:1"}}, [DEFAULT], "ns", ""),
        ({"runtime": {"image": "mine:1"}, "model": {"format": "onnx"}}, [TRITON], "ns", ""),
        ({"runtime": {"image": "mine:1", "name": "triton"}}, [TRITON], "ns", "triton"),
        ({"runtime": {"name": "risky"}}, [RISKY], "ns", "risky"),
    ],
)  # fmt: skip
def test_a_model_gets_its_runtime(spec, listed, namespace, expected):
    found = select(spec, namespace, runtimes(*listed))

    assert not isinstance(found, Problem)
    assert (found.name if found else "") == expected


REFUSED = (
    "the InferenceRuntime 'risky' must not be used in the namespace 'other': its labels do not "
    "match spec.allowedNamespaces of the runtime; label the namespace, or use another runtime"
)
UNREAD = (
    "the InferenceRuntime 'risky' has allowedNamespaces, but the operator may not read the labels "
    "of namespaces; grant it list and watch on namespaces"
)
INVALID = (
    "the InferenceRuntime 'broken' is invalid: spec.protocol: 'REST' is invalid: must be one of "
    "Auto, OpenInference, TensorFlowServing, GRPS, OpenAI, None; correct it"
)
NAME, FORMAT = "spec.runtime.name", "spec.model.format"
BARE = runtime("bare", image="bare:1")
BOTH = runtime("both", image="both:1", formats=[{"name": "b"}, {"name": "a"}])
THIRD = runtime("third", image="x", formats=[{"name": "onnx", "priority": 2}])


@pytest.mark.parametrize(
    ("spec", "listed", "namespace", "reason", "path", "message"),
    [
        (
            {"runtime": {"name": "tritn"}}, [TRITON, OTHER], "ns", "RuntimeNotFound", NAME,
            "'tritn' is not the name of an InferenceRuntime; the names are other, triton",
        ),
        (
            {"runtime": {"name": "a"}}, [], "ns", "RuntimeNotFound", NAME,
            "'a' is not the name of an InferenceRuntime; no InferenceRuntime exists",
        ),
        ({"runtime": {"name": "risky"}}, [RISKY], "other", "RuntimeNotAllowed", NAME, REFUSED),
        (
            {"model": {"format": "pkl"}}, [RISKY], "other", "RuntimeNotAllowed", FORMAT,
            f"'pkl': {REFUSED}",
        ),
        (
            {"model": {"format": "gguf"}}, [TRITON, RISKY], "ns", "NoRuntimeForFormat", FORMAT,
            ("'gguf' is not a format of any InferenceRuntime; the formats are onnx, pkl; set one "
            "of these, or set runtime.name"),
        ),
        (
            {"model": {"format": "gguf"}}, [BARE], "ns", "NoRuntimeForFormat", FORMAT,
            ("'gguf' is not a format of any InferenceRuntime; no InferenceRuntime has formats; "
            "set runtime.name"),
        ),
        (
            {"runtime": {"name": "both"}, "model": {"format": "gguf"}}, [BOTH], "ns",
            "NoRuntimeForFormat", FORMAT,
            ("'gguf' is not a format of the InferenceRuntime 'both', whose formats are b, a; set "
            "one of these, or remove model.format"),
        ),
        (
            {"runtime": {"name": "bare"}, "model": {"format": "gguf"}}, [BARE], "ns",
            "NoRuntimeForFormat", FORMAT,
            ("'gguf' is not a format of the InferenceRuntime 'bare', whose formats are none; set "
            "one of these, or remove model.format"),
        ),
        (
            {"model": {"format": "onnx"}}, [TRITON, SAME, OTHER, THIRD], "ns",
            "RuntimeAmbiguous", FORMAT,
            ("'onnx' is a format of 'same', 'third' and 'triton' with the same priority 2; set "
            "runtime.name to one of them, or give one a higher priority"),
        ),
        (
            {"model": {"format": "onnx"}}, [TRITON, SAME, OTHER], "ns",
            "RuntimeAmbiguous", FORMAT,
            ("'onnx' is a format of 'same' and 'triton' with the same priority 2; set "
            "runtime.name to one of them, or give one a higher priority"),
        ),
        (
            {}, [DEFAULT, SECOND], "ns", "RuntimeAmbiguous", NAME,
            ("is absent, and the default is ambiguous: 'second' and 'standard' have default: "
            "true; set runtime.name to one of them, or remove default from all but one"),
        ),
        ({"runtime": {"name": "broken"}}, [BROKEN], "ns", "RuntimeInvalid", NAME, INVALID),
        ({"model": {"format": "bad"}}, [BROKEN], "ns", "RuntimeInvalid", FORMAT, INVALID),
        (
            {"runtime": {"name": "broken"}, "model": {"format": "bad"}}, [BROKEN], "ns",
            "RuntimeInvalid", NAME, INVALID,
        ),
    ],
)  # fmt: skip
def test_a_model_is_told_why_it_gets_none(spec, listed, namespace, reason, path, message):
    assert select(spec, namespace, runtimes(*listed)) == Problem(path, message, reason)


def test_every_problem_of_an_invalid_runtime_is_reported():
    worse = runtime("broken", image="x", protocol="REST", transport="UDP")

    found = select({"runtime": {"name": "broken"}}, "ns", runtimes(worse))

    assert isinstance(found, Problem)
    assert "; spec.transport: 'UDP'" in found.message


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (20, f"the names are {', '.join(f'a{at:02}' for at in range(20))}"),
        (23, f"the names are {', '.join(f'a{at:02}' for at in range(20))} and 3 more"),
    ],
)
def test_only_the_first_names_are_listed(count, message):
    known = runtimes(*(runtime(f"a{at:02}", image="x") for at in reversed(range(count))))

    found = select({"runtime": {"name": "b"}}, "ns", known)

    assert isinstance(found, Problem)
    assert found.message == f"'b' is not the name of an InferenceRuntime; {message}"


def test_only_the_first_refusals_of_a_format_are_listed():
    formats = [{"name": "pkl"}]
    many = (
        runtime(f"a{at:02}", image="x", allowedNamespaces=RISK, formats=formats)
        for at in reversed(range(23))
    )

    found = select({"model": {"format": "pkl"}}, "other", runtimes(*many))

    assert isinstance(found, Problem)
    refused = found.message.split("InferenceRuntime ")[1:]
    assert [each[:5] for each in refused] == [f"'a{at:02}'" for at in range(20)]
    assert "use another runtime; the InferenceRuntime" in found.message


@pytest.mark.parametrize(
    ("spec", "path"),
    [({"runtime": {"name": "risky"}}, NAME), ({"model": {"format": "pkl"}}, FORMAT)],
)
def test_a_selector_without_the_labels_of_namespaces_admits_nobody(spec, path):
    found = select(spec, "ns", runtimes(RISKY, namespace_labels=None))

    message = UNREAD if path == NAME else f"'pkl': {UNREAD}"
    assert found == Problem(path, message, "ReadForbidden")


def test_a_default_with_a_selector_is_refused_without_the_labels_of_namespaces():
    limited = runtime("risky", image="x", default=True, allowedNamespaces=RISK)
    free = runtime("free", image="x", default=True)

    alone = select({}, "ns", runtimes(free, namespace_labels=None))
    both = select({}, "ns", runtimes(free, limited, namespace_labels=None))
    none = select({}, "ns", runtimes(RISKY, namespace_labels=None))

    assert alone == free
    assert both == Problem(NAME, UNREAD, "ReadForbidden")
    assert none is None


@pytest.mark.parametrize(("namespace", "expected"), [("ns", "risky"), ("other", ""), ("new", "")])
def test_a_default_with_a_selector_is_for_the_namespaces_that_it_selects(namespace, expected):
    limited = runtime("risky", image="x", default=True, allowedNamespaces=RISK)

    found = select({}, namespace, runtimes(limited))

    assert not isinstance(found, Problem)
    assert (found.name if found else "") == expected


def test_a_selector_may_name_namespaces():
    by_name = {"selector": {"matchLabels": {"kubernetes.io/metadata.name": "new"}}}
    one = runtime("one", image="x", allowedNamespaces=by_name)

    assert select({"runtime": {"name": "one"}}, "new", runtimes(one)) == one
    assert isinstance(select({"runtime": {"name": "one"}}, "ns", runtimes(one)), Problem)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"runtime": {"name": "triton"}}, True),
        ({"model": {"format": "onnx"}}, True),
        ({"runtime": {"name": 3}, "model": {"format": 3}}, False),
        ({"runtime": "triton", "model": None}, False),
        ({}, False),
    ],
)
def test_a_runtime_is_asked_for_by_name_or_format(spec, expected):
    assert names_a_runtime(spec) is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"runtime": {"image": "a"}}, True),
        ({"runtime": {"image": "a", "name": "triton"}}, False),
        ({"runtime": {"image": ""}}, False),
        ({}, False),
    ],
)
def test_an_image_without_a_runtime_takes_none(spec, expected):
    assert takes_none(spec) is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"runtime": {"name": "triton"}}, "triton"),
        ({"runtime": {"name": "standard", "image": "a"}}, "standard"),
        ({"runtime": {"image": "a"}}, ""),
        ({"model": {"format": "onnx"}}, "triton"),
        ({"model": {"format": "zero"}}, "zero"),
        ({}, "standard"),
    ],
)
def test_a_model_could_use_what_it_names_or_else_what_has_its_format_or_the_default(
    spec, expected
):
    zero = runtime("zero", image="x", formats=[{"name": "zero", "priority": 0}])

    found = [each.name for each in (TRITON, DEFAULT, zero) if could_use(model(**spec), each)]

    assert found == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"runtime": {"name": "triton"}}, "RuntimeNotFound"),
        ({"model": {"format": "onnx"}}, "RuntimeNotFound"),
        ({}, ""),
    ],
)
def test_without_the_right_to_read_runtimes_only_those_who_name_one_are_told(spec, expected):
    found = select(spec, "ns", Runtimes(unreadable="the kind is not installed"))

    assert (found.reason if isinstance(found, Problem) else "") == expected
    if isinstance(found, Problem):
        path, value = (NAME, "triton") if "runtime" in spec else (FORMAT, "onnx")
        message = f"{value!r} cannot be looked up: the kind is not installed"
        assert (found.path, found.message) == (path, message)


def test_a_missing_right_is_told_from_a_missing_runtime():
    sentence = "the operator may not read the kind InferenceRuntime"
    forbidden = Runtimes(unreadable=sentence, is_forbidden=True)

    found = select({"runtime": {"name": "triton"}}, "ns", forbidden)

    assert isinstance(found, Problem)
    assert found.reason == "ReadForbidden"
    assert sentence in found.message


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (runtime("b", default=True), ["b"]),
        (runtime("b", default=False), []),
        (runtime("b", default=True, allowedNamespaces=RISK), ["b"]),
        (
            runtime(
                "b", default=True, allowedNamespaces={"selector": {"matchLabels": {"team": "x"}}}
            ),
            [],
        ),
    ],
)
def test_defaults_of_the_same_namespaces_are_found(other, expected):
    one = runtime("a", default=True)

    assert defaults_at_once(one, runtimes(one, other)) == expected
    assert defaults_at_once(runtime("a"), runtimes(other)) == ()


def test_defaults_with_selectors_overlap_in_a_known_namespace():
    shop = {"selector": {"matchLabels": {"team": "shop"}}}
    for labels, expected in ((LABELS, ["b", "c"]), (None, []), ({}, [])):
        one = runtime("a", default=True, allowedNamespaces=RISK)
        others = [
            runtime("c", default=True, allowedNamespaces=RISK),
            runtime("b", default=True),
            runtime("d", default=True, allowedNamespaces=shop),
            runtime("e", allowedNamespaces=RISK),
        ]

        found = defaults_at_once(one, runtimes(one, *others, namespace_labels=labels))

        assert list(found) == expected


def test_defaults_without_selectors_overlap_without_any_known_namespace():
    one, other = runtime("a", default=True), runtime("b", default=True)

    assert defaults_at_once(one, runtimes(one, other, namespace_labels=None)) == ["b"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "team", "operator": "In", "values": ["risk"]}, True),
        ({"key": "team", "operator": "In", "values": ["shop"]}, False),
        ({"key": "team", "operator": "NotIn", "values": ["shop"]}, True),
        ({"key": "none", "operator": "NotIn", "values": ["shop"]}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "none", "operator": "Exists"}, False),
        ({"key": "none", "operator": "DoesNotExist"}, True),
        ({"key": "team", "operator": "DoesNotExist"}, False),
    ],
)
def test_an_expression_selects_namespaces(expression, expected):
    one = runtime("a", allowedNamespaces={"selector": {"matchExpressions": [expression]}})

    assert one.problems == ()
    assert one.allows(LABELS["ns"]) == expected


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"image": 3}, "spec.image"),
        ({"ports": {"http": 0}}, "spec.ports.http"),
        ({"health": {"periodSeconds": 0}}, "spec.health.periodSeconds"),
        ({"paths": {"live": "no slash"}}, "spec.paths.live"),
        ({"formats": [{"name": "A"}]}, "spec.formats[0].name"),
        ({"formats": [{"name": "a"}, {"name": "a"}]}, "spec.formats[1].name"),
        ({"formats": [{"name": "a", "priority": -1}]}, "spec.formats[0].priority"),
        ({"maxConcurrentRollouts": 2}, "spec.maxConcurrentRollouts"),
        ({"updatePolicy": "Never"}, "spec.updatePolicy"),
        ({"allowedNamespaces": {}}, "spec.allowedNamespaces.selector"),
        (
            {"allowedNamespaces": {"selector": {"matchExpressions": [{"key": "a"}]}}},
            "spec.allowedNamespaces.selector.matchExpressions[0].operator",
        ),
        (
            {
                "allowedNamespaces": {
                    "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}
                }
            },
            "spec.allowedNamespaces.selector.matchExpressions[0].values",
        ),
        ({"adapters": []}, "spec.adapters"),
    ],
)
def test_an_invalid_field_of_a_runtime_is_named(spec, path):
    assert path in [problem.path for problem in runtime("a", **spec).problems]
