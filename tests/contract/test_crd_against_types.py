"""The CRD and parse() are one API: the same fields, defaults, bounds, choices and refusals."""

import dataclasses
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from moorage_operator import names
from moorage_operator.api import contract, smoke_tests, uri_patterns, v1alpha1
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.smoke import SmokeOutcome, SmokeVerdict
from moorage_operator.watched import ContainerObserved
from support.operator_values import (
    NOW,
    body,
    model,
    observed,
    planned,
    pod,
    said,
    unready,
)

ROOT = Path(__file__).resolve().parents[2]
CRD = yaml.safe_load((ROOT / "crds" / "inferencemodels.yaml").read_text())
VERSION = CRD["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]
SPEC = SCHEMA["properties"]["spec"]
STATUS = SCHEMA["properties"]["status"]
SIZE_LIMIT_BYTES = 80_000  # far below the 262144 bytes of an annotation of `kubectl apply`

# Dataclass of parse() for each object of the schema that parse() reads itself.
PARSED = {
    "model": v1alpha1.ModelSpec,
    "model.credentials": v1alpha1.Credentials,
    "model.download": v1alpha1.Download,
    "runtime": v1alpha1.RuntimeSpec,
    "runtime.ports": v1alpha1.Ports,
    "endpoints": v1alpha1.Endpoints,
    "health": v1alpha1.Health,
    "contract": v1alpha1.Contract,
    "rollout": v1alpha1.Rollout,
    "rollout.blueGreen": v1alpha1.BlueGreen,
    "rollout.canary": v1alpha1.Canary,
    "scaling": v1alpha1.Scaling,
    "scaling.prometheus": v1alpha1.PrometheusQuery,
}
# What else an object must have for one of its fields to be judged by itself.
BY_QUERY = {"metric": "Prometheus", "prometheus": {"serverAddress": "http://p", "query": "q"}}
NEIGHBOURS = {
    "scaling": {"maxReplicas": 10_000, "target": 1, **BY_QUERY},
    "canary": {"parentRefs": [{"name": "web"}]},
}
# Fields of InferenceModel that are not spec.<field>.
NOT_SPEC = {
    "namespace", "name", "uid", "generation", "deleting", "rolloutRequest", "problems",
    "scheduling", "smokeDigest", "canaryApproved",
}  # fmt: skip
# Numbers whose default is made from another field's.
DEPENDENT = {"rollout.progressDeadlineSeconds"}


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def at(path: str) -> dict[str, Any]:
    """The schema of spec.<path>."""
    schema = SPEC
    for name in path.split("."):
        schema = schema["properties"][name]
    return schema


def fields(kind: type) -> set[str]:
    return {camel(field.name) for field in dataclasses.fields(kind)}


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, child
        yield from leaves(child, here)


def value_at(parsed: Any, path: str) -> Any:
    for name in path.split("."):
        parsed = getattr(parsed, re.sub("([A-Z])", lambda part: "_" + part[1].lower(), name))
    return parsed


def spec_with(path: str, value: Any) -> dict[str, Any]:
    """A valid spec with one field set."""
    spec = body()["spec"]
    *holders, last = path.split(".")
    place = spec
    for name in holders:
        place = place.setdefault(name, dict(NEIGHBOURS.get(name, {})))
    place[last] = value
    return spec


def is_required(path: str) -> bool:
    """Whether the object that has the field cannot be without it."""
    holder, _, name = path.rpartition(".")
    return name in (at(holder) if holder else SPEC).get("required", [])


def problems(spec: dict[str, Any]) -> list[str]:
    return [problem.path for problem in parse({**body(), "spec": spec}).problems]


DEFAULTS = [(path, schema["default"]) for path, schema in leaves(SPEC) if "default" in schema]
BOUNDS = [
    (path, schema["minimum"], schema.get("maximum", 2**31 - 1))
    for path, schema in leaves(SPEC)
    if "minimum" in schema
]
CHOICES = [
    (path, schema["enum"])
    for path, schema in leaves(SPEC)
    if "enum" in schema and not path.startswith("tolerations")
]


@pytest.mark.parametrize(("path", "kind"), PARSED.items(), ids=PARSED)
def test_an_object_has_the_same_fields(path, kind):
    assert set(at(path)["properties"]) == fields(kind)


def test_the_spec_has_the_same_fields():
    top = fields(v1alpha1.InferenceModel) - NOT_SPEC

    assert set(SPEC["properties"]) == top | fields(v1alpha1.Scheduling)


@pytest.mark.parametrize(("path", "default"), DEFAULTS)
def test_a_default_is_the_same(path, default):
    assert as_json(value_at(model(), path)) == default


def as_json(value: Any) -> Any:
    """A parsed value as a manifest has it."""
    if dataclasses.is_dataclass(value):
        return {camel(name): as_json(part) for name, part in dataclasses.asdict(value).items()}
    return [as_json(each) for each in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("name", "kind"), [("parentRefs", v1alpha1.ParentRef), ("steps", v1alpha1.CanaryStep)]
)
def test_an_item_of_a_canary_has_the_same_fields(name, kind):
    assert set(at(f"rollout.canary.{name}")["items"]["properties"]) == fields(kind)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"weight": 0}, False), ({"weight": 1}, True), ({"weight": 99}, True),
        ({"weight": 100}, False), ({"weight": 5, "pauseSeconds": -1}, False),
        ({"weight": 5, "pauseSeconds": 0}, True), ({"weight": 5, "pauseSeconds": 604800}, True),
        ({"weight": 5, "pauseSeconds": 604801}, False), ({}, False),
    ],
)  # fmt: skip
def test_a_step_is_judged_alike(step, expected):
    schema = at("rollout.canary.steps")["items"]

    assert jsonschema.Draft202012Validator(schema).is_valid(step) == expected
    assert (problems(spec_with("rollout.canary.steps", [step])) == []) == expected


@pytest.mark.parametrize(
    "host", ["a", "iris.example.com", "*.example.com", "*", "a.*", "A.b", "a_b", "-a", "a.", ""]
)
def test_a_hostname_is_judged_alike(host):
    pattern = at("rollout.canary.hostnames")["items"]["pattern"]

    expected = bool(re.search(pattern, host))
    assert (problems(spec_with("rollout.canary.hostnames", [host])) == []) == expected


@pytest.mark.parametrize("name", ["web", "a.b", "-a", "a_b", "A", "a" * 254])
def test_the_name_of_a_gateway_is_judged_alike(name):
    schema = at("rollout.canary.parentRefs")["items"]["properties"]["name"]

    expected = jsonschema.Draft202012Validator(schema).is_valid(name)
    found = problems(spec_with("rollout.canary.parentRefs", [{"name": name}]))
    assert (found == []) == expected


def test_every_number_has_its_default_in_the_crd():
    without = [
        path
        for path, schema in leaves(SPEC)
        if schema.get("type") in {"integer", "boolean"}
        and "default" not in schema
        and path not in DEPENDENT
        and not is_required(path)
    ]

    assert without == []


@pytest.mark.parametrize(("path", "lowest", "highest"), BOUNDS)
def test_bounds_are_the_same(path, lowest, highest):
    assert path not in " ".join(problems(spec_with(path, lowest)))
    assert problems(spec_with(path, highest)) == []
    assert problems(spec_with(path, lowest - 1)) == [f"spec.{path}"]
    assert problems(spec_with(path, highest + 1)) == [f"spec.{path}"]


@pytest.mark.parametrize(("path", "members"), CHOICES)
def test_choices_are_the_same(path, members):
    kind = type(value_at(model(), path))

    assert issubclass(kind, StrEnum)
    assert members == [str(member) for member in kind]


def cel_rules(schema: dict[str, Any]) -> list[str]:
    """The rules of a field that are one `self.matches('...')`."""
    rules = [rule["rule"] for rule in schema["x-kubernetes-validations"]]
    return [rule.removeprefix("self.matches('").removesuffix("')") for rule in rules]


@pytest.mark.parametrize("name", ["live", "ready", "modelReady", "metadata"])
@pytest.mark.parametrize(
    "path", ["/", "/a/b", "/a%20b?c=d", "no slash", "/a b", "/a%zz", "/a#b", "", "/\u00e4"]
)
def test_a_path_is_judged_alike(name, path):
    schema = at(f"endpoints.{name}")
    rule = cel_rules(schema)[0]
    accepted_by_crd = bool(re.search(rule, path)) and len(path) >= schema["minLength"]

    # The empty path is refused by the CRD and means "absent" to parse().
    assert (problems(spec_with(f"endpoints.{name}", path)) == []) == (
        accepted_by_crd or path == ""
    )


def uri_rules() -> dict[str, str]:
    """The pattern of each scheme's rule, of the one for all schemes and of the one for dots."""
    rules = [rule["rule"] for rule in at("model.uri")["x-kubernetes-validations"]]
    found = {}
    for rule in rules:
        scheme = re.match(r"!self\.startsWith\('(.*?)://'\) \|\| ", rule)
        pattern = re.search(r"self\.matches\('(.*)'\)$", rule)
        assert pattern
        name = scheme[1] if scheme else ("dots" if rule.startswith("!") else "any")
        found[name] = pattern[1].replace("\\\\", "\\")
    return found


def crd_takes_uri(uri: str) -> bool:
    rules = uri_rules()
    any_scheme, dots = rules.pop("any"), rules.pop("dots")
    return (
        bool(re.search(any_scheme, uri))
        and all(
            not uri.startswith(f"{scheme}://") or re.search(pattern, uri)
            for scheme, pattern in rules.items()
        )
        and not re.search(dots, uri)
    )


def test_the_patterns_of_uris_are_the_same():
    rules = uri_rules()

    assert rules.pop("any") == f"^({'|'.join(v1alpha1.Scheme)})://"
    assert rules.pop("dots") == uri_patterns.DOTS.pattern.replace("\\Z", "$")
    assert rules == {
        scheme: f"^{pattern.pattern}$" for scheme, pattern in uri_patterns.PATTERNS.items()
    }
    assert set(rules) == set(uri_patterns.EXPECTED) == set(v1alpha1.Scheme)


def test_the_sentences_about_uris_are_the_same():
    messages = {rule["message"] for rule in at("model.uri")["x-kubernetes-validations"]}

    assert {f"write {sentence}" for sentence in uri_patterns.EXPECTED.values()} <= messages


@pytest.mark.parametrize(
    "uri",
    [
        "pvc://claim", "pvc://claim/", "pvc://my.claim/a/b", "pvc://claim/a..b/c", "pvc://",
        "pvc://Big", "pvc://a_b/c", "pvc://claim/..", "pvc://claim/./a", "configmap://files",
        "configmap://a/b", "configmap://", "configmap://-a", "ftp://a/b", "claim/path",
        "pvc:claim", "PVC://claim", "s3://bucket/key", "s3://bucket", "s3://b", "s3://Bucket/a",
        "s3://bucket/a b", "s3://bucket/a?region=eu-west-1", "s3://bucket/a?zone=1",
        "s3://bucket/a?endpoint=http://minio:9000&region=x", "s3://bucket/a?endpoint=minio",
        "s3://bucket/a#sha256=" + "0" * 64, "s3://bucket/a#sha256=12", "s3://u:p@bucket/a",
        "gs://bucket/a", "gs://bucket/a?region=x", "hf://owner/name", "hf://owner/name@v1.0/a/b",
        "hf://name", "hf://owner/name@", "oci://ghcr.io/a/b:1", "oci://ghcr.io/a/b",
        "oci://localhost:5000/a@sha256:" + "a" * 64, "oci://ghcr.io/a/b:1?path=models",
        "oci://ghcr.io/a/b@sha256:12", "oci://ghcr.io/A/b:1",
        "https://host/file", "https://host:8443/a/file.tar.gz", "https://host/", "https://host",
        "https://u:p@host/file", "https://host/file?a=b/c", "https://host/file#sha256=12",
        "https://host/file#sha256=" + "a" * 64, "http://host/file", "https://host/a/../b",
    ],
)  # fmt: skip
def test_a_uri_is_judged_alike(uri):
    assert (problems(spec_with("model.uri", uri)) == []) == crd_takes_uri(uri)


@pytest.mark.parametrize("path", ["model.name", "model.version"])
@pytest.mark.parametrize("text", ["a", "Iris.v2_b-1", "a/b", "a b", "\u00e4"])
def test_a_model_name_is_judged_alike(path, text):
    pattern = at(path)["pattern"]

    assert (problems(spec_with(path, text)) == []) == bool(re.search(pattern, text))


def test_a_declared_tensor_has_the_same_fields_and_datatypes():
    for side in ("inputs", "outputs"):
        fields_of_crd = at(f"contract.{side}")["items"]["properties"]
        assert set(fields_of_crd) == fields(v1alpha1.DeclaredTensor)
        assert set(fields_of_crd["datatype"]["enum"]) == contract.DATATYPES


def test_every_field_is_described():
    described = [path for path, schema in leaves(SPEC) if len(schema.get("description", "")) > 8]
    without_example = [
        path
        for path, schema in leaves(SPEC)
        if schema.get("type") in {"string", "integer"}
        and path.count(".") < 3
        and "xample" not in schema["description"]
        and not path.startswith(("tolerations", "imagePullSecrets", "runtime.env"))
    ]

    assert described == [path for path, _ in leaves(SPEC)]
    assert without_example == []


def test_every_rule_has_a_message_that_says_what_to_write():
    rules = [
        rule
        for _, schema in [("", SPEC), *leaves(SPEC)]
        for rule in schema.get("x-kubernetes-validations", [])
    ]

    assert len(rules) >= 10
    for rule in rules:
        assert re.search(r"write|set|remove|must", rule["message"])


def test_the_crd_is_small_and_names_what_the_operator_names():
    assert len(json.dumps(CRD)) < SIZE_LIMIT_BYTES
    assert CRD["metadata"]["name"] == f"{names.PLURAL}.{names.GROUP}"
    assert CRD["spec"]["names"]["kind"] == names.KIND
    assert f"{CRD['spec']['group']}/{VERSION['name']}" == names.API_VERSION


def test_a_smoke_test_has_the_same_fields_and_bounds():
    test = SPEC["properties"]["smokeTests"]
    sides = test["items"]["properties"]
    inputs, outputs = (sides[side]["items"]["properties"] for side in ("inputs", "outputs"))

    assert set(sides) == fields(smoke_tests.SmokeTest)
    assert set(inputs) == fields(smoke_tests.InputTensor)
    assert set(outputs) == fields(smoke_tests.ExpectedTensor)
    assert set(inputs["datatype"]["enum"]) == contract.DATATYPES
    assert test["maxItems"] == smoke_tests.TEST_LIMIT
    assert inputs["data"]["maxItems"] == smoke_tests.ELEMENT_LIMIT
    assert sides["maxLatencyMilliseconds"]["maximum"] == smoke_tests.LATENCY_LIMIT_MILLISECONDS
    for name in ("absoluteTolerance", "relativeTolerance"):
        assert outputs[name]["default"] == smoke_tests.DEFAULT_TOLERANCE


# ------------------------------------------------------------------ status and columns


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with every field that it does not name forbidden, as pruning would drop it."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {
            name: closed(child) for name, child in schema["properties"].items()
        }
        result["additionalProperties"] = False
    if "items" in schema:
        result["items"] = closed(schema["items"])
    return result


SMOKE: dict[str, Any] = {
    "smokeTests": [
        {
            "name": "blank",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}],
        }
    ]
}


def crash_status() -> dict[str, Any]:
    container = ContainerObserved(
        "runtime",
        waiting_reason="CrashLoopBackOff",
        last_terminated_exit_code=3,
        last_terminated_started_at=NOW - timedelta(seconds=5),
        last_terminated_at=NOW,
    )
    return planned(model(), observed(unready("p", model(), runtime=container))).status


def mended_status() -> dict[str, Any]:
    of = model(contract={"inputs": [{"name": "image", "shape": [-1, 8, 8]}]}, **SMOKE)
    one = pod("p0", of)
    passed = SmokeOutcome(of.smoke_digest, SmokeVerdict.PASSED)
    facts = {"probes": said(one, smoke=passed), "status": crash_status()}
    return planned(of, observed(one, **facts)).status


def failed_status() -> dict[str, Any]:
    of = model(**SMOKE)
    one = pod("p0", of)
    failed = SmokeOutcome(of.smoke_digest, SmokeVerdict.OUTPUT_MISMATCH, "element 3")
    return planned(of, observed(one, probes=said(one, smoke=failed))).status


@pytest.mark.parametrize(
    "status",
    [crash_status(), mended_status(), failed_status()],
    ids=["crashed", "mended", "failed"],
)
def test_what_the_plan_writes_is_in_the_schema(status):
    jsonschema.validate(status, closed(STATUS))


def test_the_plan_writes_every_field_of_the_schema():
    status = mended_status()

    assert set(status) == set(STATUS["properties"])
    for name in ("model", "server", "lastFailure", "protocol"):
        assert set(status[name]) == set(STATUS["properties"][name]["properties"])
    assert set(status["conditions"][0]) == set(
        STATUS["properties"]["conditions"]["items"]["properties"]
    )


def test_columns_find_their_values():
    source = {**body(), "status": mended_status()}
    source["metadata"]["creationTimestamp"] = "2026-03-04T05:06:07Z"
    columns = {
        column["name"]: look_up(source, column["jsonPath"])
        for column in VERSION["additionalPrinterColumns"]
    }

    del columns["Message"]
    assert columns == {
        "Ready": "True",
        "Replicas": "1/1",
        "Model": "digits",
        "Version": "1",
        "Protocol": "OpenInference",
        "Reason": "Serving",
        "Age": "2026-03-04T05:06:07Z",
        "UpToDate": "True",
        "Contract": "Matched",
        "Smoke": "Passed",
        "URL": "http://digits.ns.svc.cluster.local:8000/v2/models/digits/infer",
    }


def look_up(source: Any, path: str) -> Any:
    """What kubectl's JSONPath subset finds: fields, an index, one filter by type."""
    for part in re.findall(r"\.?([A-Za-z]+)((?:\[[^\]]+\])?)", path):
        name, index = part
        source = source[name]
        if filter_ := re.search(r'@\.type=="(\w+)"', index):
            source = next(item for item in source if item["type"] == filter_[1])
        elif index:
            source = source[int(index.strip("[]"))]
    return source


def test_scale_finds_what_the_status_writes():
    status = mended_status()

    assert VERSION["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    assert status["replicas"] == 1
    assert "moorage.dev/model=digits" in status["selector"]
