"""The CRD and parse() are one API: the same fields, defaults, bounds, choices and refusals."""

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from moorage_operator.api import (
    contract,
    json_paths,
    json_tests,
    names,
    patterns,
    smoke_tests,
    uri_patterns,
    v1alpha1,
)
from moorage_operator.api.v1alpha1 import InferenceModel, parse
from moorage_operator.resources.ingress import make_ingress
from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.objects import (
    ChildKey,
    ChildObserved,
    ContainerObserved,
    IngressObserved,
    LoadBalancerPoint,
)
from moorage_operator.values.runtimes import RuntimeState, RuntimeUse
from moorage_operator.values.smoke import SmokeOutcome, SmokeVerdict
from support.operator_values import (
    DIGITS,
    NOW,
    body,
    model,
    observed,
    planned,
    pod,
    said,
    unready,
    with_service,
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
    "model.files": v1alpha1.Files,
    "runtime": v1alpha1.RuntimeSpec,
    "runtime.ports": v1alpha1.Ports,
    "paths": v1alpha1.PathOverrides,
    "route": v1alpha1.Route,
    "route.grpc": v1alpha1.GrpcRoute,
    "route.ingress": v1alpha1.IngressRoute,
    "disruptionBudget": v1alpha1.DisruptionBudget,
    "objectMetadata": v1alpha1.ObjectMetadata,
    "smokeTests": v1alpha1.SmokeTests,
    "health": v1alpha1.Health,
    "contract": v1alpha1.Contract,
    "rollout": v1alpha1.Rollout,
    "rollout.blueGreen": v1alpha1.BlueGreen,
    "rollout.canary": v1alpha1.Canary,
    "scaling": v1alpha1.Scaling,
}
# What else an object must have for one of its fields to be judged by itself.
PARENTS = {"parentRefs": [{"name": "web"}]}
QUERY = {"type": "Prometheus", "serverAddress": "http://p", "query": "q", "target": 1}
NEIGHBOURS = {
    "scaling": {"maxReplicas": 10_000, "metrics": [QUERY]},
    "route": PARENTS,
}
# Fields of InferenceModel that are not spec.<field>.
NOT_SPEC = {
    "namespace", "name", "uid", "generation", "deleting", "problems", "scheduling",
    "smokeDigest", "written",
}  # fmt: skip
# Numbers whose default is made from another field's.
DEPENDENT = {"rollout.progressDeadlineSeconds"}
# Fields that an InferenceRuntime may set. The CRD has no defaults for them, because these would
# hide whether the user wrote a value, which would then override the runtime's.
OF_RUNTIME = ("protocol", "transport", "runtime", "paths", "health", "podTemplate")


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
    spec = {**body()["spec"], "route": dict(PARENTS)}
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
    """A parsed value as a manifest has it; an empty text is absent."""
    if dataclasses.is_dataclass(value):
        parts = dataclasses.asdict(value).items()
        return {camel(name): as_json(part) for name, part in parts if part != ""}
    return [as_json(each) for each in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("route.parentRefs", v1alpha1.ParentRef),
        ("rollout.canary.steps", v1alpha1.CanaryStep),
        ("scaling.metrics", v1alpha1.ScalingMetric),
        ("smokeTests.tests", v1alpha1.SmokeTest),
    ],
)
def test_an_item_of_a_list_has_the_same_fields(path, kind):
    assert set(at(path)["items"]["properties"]) == fields(kind)


@pytest.mark.parametrize(
    "metric",
    [
        {"type": "CPU", "target": 1}, {"type": "CPU"}, {"target": 1}, {"type": "GPU", "target": 1},
        {"type": "Memory", "target": 0}, {"type": "Memory", "target": 2**31 - 1},
        {"type": "Memory", "target": 2**31}, {"type": "CPU", "target": "70"},
    ],
)  # fmt: skip
def test_a_metric_is_judged_alike(metric):
    schema = at("scaling.metrics")["items"]

    expected = jsonschema.Draft202012Validator(schema).is_valid(metric)
    if metric.get("target") == 2**31:
        expected = False  # format int32, which JSON Schema does not check
    scaling = {"maxReplicas": 2, "metrics": [metric]}
    assert (problems({**body()["spec"], "scaling": scaling}) == []) == expected


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
    pattern = at("route.hostnames")["items"]["pattern"]

    expected = bool(re.search(pattern, host))
    assert (problems(spec_with("route.hostnames", [host])) == []) == expected


@pytest.mark.parametrize("name", ["web", "a.b", "-a", "a_b", "A", "a" * 254])
def test_the_name_of_a_gateway_is_judged_alike(name):
    schema = at("route.parentRefs")["items"]["properties"]["name"]

    expected = jsonschema.Draft202012Validator(schema).is_valid(name)
    found = problems(spec_with("route.parentRefs", [{"name": name}]))
    assert (found == []) == expected


def test_every_number_has_its_default_in_the_crd():
    without = [
        path
        for path, schema in leaves(SPEC)
        if schema.get("type") in {"integer", "boolean"}
        and "default" not in schema
        and path not in DEPENDENT
        and not path.startswith(OF_RUNTIME)
        and not is_required(path)
    ]

    assert without == []


def test_a_field_that_a_runtime_may_set_has_its_default_only_in_the_operator():
    assert [path for path, _ in DEFAULTS if path.startswith(OF_RUNTIME)] == []
    for path in ("protocol", "transport", "runtime.ports.http", "health.periodSeconds"):
        assert f"Defaults to {value_at(model(), path)}" in " ".join(
            at(path)["description"].split()
        )


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
    schema = at(f"paths.{name}")
    rule = cel_rules(schema)[0]
    accepted_by_crd = bool(re.search(rule, path)) and len(path) >= schema["minLength"]

    # The empty path is refused by the CRD and means "absent" to parse().
    assert (problems(spec_with(f"paths.{name}", path)) == []) == (accepted_by_crd or path == "")


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

    assert {f"must be {sentence}" for sentence in uri_patterns.EXPECTED.values()} <= messages


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
        "gs://bucket/a", "gs://bucket/a?region=x",
        "azblob://account/models/a", "azblob://account/models", "azblob://account", "azblob://A/b",
        "azblob://account/a--b/c", "azblob://account/models?endpoint=http://azurite:10000",
        "azblob://account/models?region=x", "azblob://account/models/a#sha256=" + "0" * 64,
        "hf://owner/name", "hf://owner/name@v1.0/a/b",
        "hf://name", "hf://owner/name@", "oci://ghcr.io/a/b:1", "oci://ghcr.io/a/b",
        "oci://localhost:5000/a@sha256:" + "a" * 64, "oci://ghcr.io/a/b:1?path=models",
        "oci://ghcr.io/a/b@sha256:12", "oci://ghcr.io/A/b:1",
        "oci://ghcr.io/a/b:1?path=../x", "oci://ghcr.io/a/b:1?path=a/.", "oci://ghcr.io/a/b:1?path=..",
        "https://host/file?path=../x",
        "https://host/file", "https://host:8443/a/file.tar.gz", "https://host/", "https://host",
        "https://u:p@host/file", "https://host/file?a=b/c", "https://host/file#sha256=12",
        "https://host/file#sha256=" + "a" * 64, "http://host/file", "https://host/a/../b",
    ],
)  # fmt: skip
def test_a_uri_is_judged_alike(uri):
    assert (problems(spec_with("model.uri", uri)) == []) == crd_takes_uri(uri)


@pytest.mark.parametrize("name", ["include", "exclude"])
@pytest.mark.parametrize(
    "pattern", ["*.onnx", "onnx/*", "-a", "a b", "\u00e4", "/a", " a", "a\nb", "", "x" * 257]
)
def test_a_pattern_of_files_is_judged_alike(name, pattern):
    schema = at(f"model.files.{name}")["items"]
    spec = spec_with(f"model.files.{name}", [pattern])
    spec["model"]["uri"] = "s3://bucket/a"

    expected = jsonschema.Draft202012Validator(schema).is_valid(pattern)
    assert (problems(spec) == []) == expected


def test_the_number_of_patterns_is_judged_alike():
    most = at("model.files.include")["maxItems"]
    for count in (most, most + 1):
        spec = spec_with("model.files.include", ["a"] * count)
        spec["model"]["uri"] = "s3://bucket/a"

        assert (problems(spec) == []) == (count == most)


@pytest.mark.parametrize("path", ["model.name", "model.version"])
@pytest.mark.parametrize(
    "text", ["a", "Iris.v2_b-1", "o/m", "/m.gguf", "@o/m:8b+q", "..", "/", "a b", "$(a)", "\u00e4"]
)
def test_a_model_name_is_judged_alike(path, text):
    pattern = at(path)["pattern"]
    another = {"protocol": "Auto", "runtime": {"image": "other:1"}}

    found = problems({**spec_with(path, text), **another})

    assert (found == []) == bool(re.search(pattern, text))


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
    test = at("smokeTests.tests")
    sides = test["items"]["properties"]
    inputs, outputs = (sides[side]["items"]["properties"] for side in ("inputs", "outputs"))

    assert set(inputs) == fields(smoke_tests.InputTensor)
    assert set(outputs) == fields(smoke_tests.ExpectedTensor)
    assert set(inputs["datatype"]["enum"]) == contract.DATATYPES
    request, expect = sides["request"]["properties"], sides["expect"]
    expectation = expect["items"]["properties"]
    assert set(request) == fields(json_tests.JsonRequest)
    assert set(expectation) - {"jsonPath"} == fields(json_tests.Expectation) - {"path"}
    assert [each["required"] for each in expect["items"]["oneOf"]] == [
        [name] for name in json_tests.CHECKS
    ]
    assert expect["maxItems"] == json_tests.EXPECTATION_LIMIT
    assert expectation["pattern"]["maxLength"] == patterns.PATTERN_LIMIT_CHARACTERS
    assert expectation["jsonPath"]["maxLength"] == json_paths.LIMIT_CHARACTERS
    assert request["method"]["enum"] == [str(method) for method in json_tests.Method]
    assert request["method"]["default"] == json_tests.JsonRequest().method
    assert f"{json_tests.TEXT_LIMIT_CHARACTERS} characters" in expectation["value"]["description"]
    searched = f"{patterns.TEXT_LIMIT_CHARACTERS} characters"
    assert searched in expectation["pattern"]["description"]
    assert f"{json_tests.BODY_LIMIT_BYTES >> 10} KiB" in request["body"]["description"]
    assert f"{json_tests.BODY_DEPTH_LIMIT} levels" in request["body"]["description"]
    assert test["maxItems"] == smoke_tests.TEST_LIMIT
    assert inputs["data"]["maxItems"] == smoke_tests.ELEMENT_LIMIT
    assert sides["maxLatencyMilliseconds"]["maximum"] == smoke_tests.LATENCY_LIMIT_MILLISECONDS
    for name in ("absoluteTolerance", "relativeTolerance"):
        assert outputs[name]["default"] == smoke_tests.DEFAULT_TOLERANCE


@pytest.mark.parametrize(
    "path",
    ["$", "a", "$.a", "a.b[0].c-d_1", "[0]", "[12][3].x", "a[999999]", "", "$a", ".a", "a.",
     "a..b", "a[-1]", "a[01]", "a[*]", "a[1000000]", "a['b']", "a[0]b", "a b", "ä", "a\n",
     "x" * 256, "x" * 257],
)  # fmt: skip
def test_a_json_path_is_judged_alike(path):
    items = SPEC["properties"]["smokeTests"]["properties"]["tests"]["items"]["properties"][
        "expect"
    ]["items"]
    schema = items["properties"]["jsonPath"]

    accepted_by_crd = (
        bool(re.search(re.sub(r"\$$", r"\\Z", schema["pattern"]), path))
        and schema["minLength"] <= len(path) <= schema["maxLength"]
    )
    assert (json_paths.parse_json_path(path) is not None) == accepted_by_crd


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
    "smokeTests": {
        "tests": [
            {
                "name": "blank",
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}],
            }
        ]
    }
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


def mended_status(**spec: Any) -> dict[str, Any]:
    contract = {"inputs": [{"name": "image", "shape": [-1, 8, 8]}]}
    of = model(contract=contract, route={"ingress": {}}, **SMOKE, **spec)
    one = pod("p0", of)
    passed = SmokeOutcome(of.smoke_digest, SmokeVerdict.PASSED)
    info = replace(DIGITS, context_length=4096)
    runtime = RuntimeState(RuntimeUse("triton", 1, "v1:0123456789", "{}"))
    facts: dict[str, Any] = {"status": crash_status(), "runtime": runtime}
    facts["probes"] = said(one, smoke=passed, model=info)
    seen = with_service(observed(one, **facts), of)
    return planned(of, replace(seen, children={**seen.children, **ingress_of(of)})).status


def ingress_of(of: InferenceModel) -> dict[ChildKey, ChildObserved]:
    """The model's Ingress as its controller serves it."""
    assert of.route.ingress
    written = applied_hash(make_ingress(of, of.route.ingress))
    points = (LoadBalancerPoint("192.0.2.7"),)
    return {("Ingress", "digits"): IngressObserved("uid-i", written, points=points)}


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
    source = {**body(), "status": mended_status(paused=True)}
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
        "Paused": "True",
        "Contract": "Matched",
        "Smoke": "Passed",
        "URL": "http://192.0.2.7",
        "ClusterURL": "http://digits.ns.svc.cluster.local:8000/v2/models/digits/infer",
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
