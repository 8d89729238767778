"""Values for every property of an InferenceModel's spec, derived from the CRD's schema.

Strings with a meaning outside of the schema (images, ports, names of other objects) have their own
tables. Everything else is derived from type, enum and bounds.
"""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Path_ = tuple[str, ...]
Schema = Mapping[str, Any]

CRD = Path(__file__).resolve().parents[2] / "crds" / "inferencemodels.yaml"
RUNTIME_CRD = CRD.with_name("inferenceruntimes.yaml")

MEANT: dict[Path_, list[Any]] = {
    ("model", "name"): ["iris", "rose"],
    ("model", "version"): ["1", "2"],
    ("model", "uri"): [
        "pvc://models/iris",
        "configmap://iris",
        "s3://models/iris",
        "azblob://account/models/iris",
        "https://example.com/iris.tar",
    ],
    ("model", "credentials"): [{"secretName": "reader"}],
    ("model", "credentials", "secretName"): ["reader", "writer"],
    ("model", "download", "sizeLimit"): ["1Gi", "20Gi"],
    ("model", "files", "include"): [["*.onnx"], ["config.json", "onnx/*"]],
    ("model", "files", "exclude"): [["*.safetensors"]],
    ("model", "download", "resources"): [{"requests": {"cpu": "100m"}}],
    ("runtime", "resources"): [
        {"requests": {"cpu": "100m"}},
        {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    ],
    ("runtime", "name"): ["shared"],
    ("model", "format"): ["listed"],
    ("runtime", "command"): [["serve"], []],
    ("runtime", "args"): [["--port", "80"], ["--fast"]],
    ("runtime", "env"): [
        [{"name": "A", "value": "1"}],
        [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
    ],
    ("networkPolicy", "from"): [
        [],
        [{"podSelector": {"matchLabels": {"app": "shop"}}}],
        [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    ],
    ("access",): [{"tokenSecretName": "iris-tokens"}],
    ("access", "tokenSecretName"): ["iris-tokens", "renamed"],
    ("objectMetadata", "labels"): [{"team": "a"}, {"team": "b", "example.com/stage": "test"}],
    ("objectMetadata", "annotations"): [{"note": "b"}, {"example.com/contact": "Team A, floor 3"}],
    ("podTemplate", "metadata"): [
        {"labels": {"team": "a"}},
        {"annotations": {"note": "b"}, "labels": {"team": "c"}},
    ],
    ("podTemplate", "spec"): [
        {"terminationGracePeriodSeconds": 12},
        {"hostname": "iris"},
        {"containers": [{"name": "beside", "image": "example/beside:1"}]},
        {"containers": [{"name": "runtime", "imagePullPolicy": "Always"}]},
        {"volumes": [{"name": "scratch", "emptyDir": {}}]},
    ],
    ("nodeSelector",): [{"disk": "ssd"}, {"disk": "hdd", "zone": "a"}],
    ("tolerations",): [[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]],
    ("affinity",): [
        {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {
                            "matchExpressions": [{"key": "disk", "operator": "Exists"}]
                        },
                    }
                ]
            }
        }
    ],
    ("priorityClassName",): ["system-cluster-critical"],
    ("serviceAccountName",): ["default", "served"],
    ("imagePullSecrets",): [[{"name": "pull"}], [{"name": "pull"}, {"name": "other"}]],
    ("rollout", "strategy"): ["RollingUpdate", "Recreate", "BlueGreen"],
    ("rollout", "maxSurge"): [1, "50%"],
    ("rollout", "maxUnavailable"): [0, 1, "25%"],
    ("route",): [
        {"parentRefs": [{"name": "web"}]},
        {"parentRefs": [{"name": "web"}], "hostnames": ["iris.example.com"]},
        {"ingress": {}},
        {"parentRefs": [{"name": "web"}], "ingress": {"className": "nginx"}},
    ],
    ("route", "parentRefs"): [[{"name": "web"}], [{"name": "web"}, {"name": "other"}]],
    ("route", "hostnames"): [["iris.example.com"], []],
    ("route", "grpc"): [{"hostnames": ["grpc.example.com"]}],
    ("route", "ingress"): [
        {},
        {"className": "nginx", "annotations": {"example.com/note": "a"}, "tlsSecretName": "tls"},
    ],
    ("rollout", "canary"): [
        {"steps": [{"weight": 50, "pauseSeconds": 0}]},
        {"keepSeconds": 10},
    ],
    ("rollout", "progressDeadlineSeconds"): [600],
    ("rollout", "promote"): ["4c1f0a9d2e", "4c1f0a9d2e/2"],
    ("rollout", "abort"): ["4c1f0a9d2e"],
    ("rollout", "restartedAt"): ["2026-03-04T05:06:07Z", "2026-03-05T05:06:07+01:00"],
    ("contract",): [
        {"inputs": [{"name": "x", "datatype": "FP32"}]},
        {"policy": "Enforce", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]},
    ],
    ("smokeTests", "tests"): [
        [
            {
                "name": "zeros",
                "inputs": [
                    {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0]}
                ],
            }
        ],
        [
            {
                "name": "chat",
                "request": {"path": "/v1/chat/completions", "body": {"max_tokens": 4}},
                "expect": [{"jsonPath": "choices[0].message.content", "pattern": "^version"}],
            }
        ],
    ],
    ("protocol",): ["OpenInference", "OpenAI"],
    ("scaling",): [
        {"maxReplicas": 3},
        {"maxReplicas": 3, "metrics": [{"type": "Memory", "target": 70}]},
    ],
    ("scaling", "metrics"): [
        [{"type": "CPU", "target": 70}],
        [
            {"type": "CPU", "target": 50},
            {"type": "Pods", "name": "moorage_inferences_in_flight", "target": 3},
        ],
    ],
    ("paths", "live"): ["/v2/health/live"],
    ("paths", "ready"): ["/v2/health/ready"],
    ("paths", "modelReady"): ["/v2/models/iris/ready"],
    ("paths", "metadata"): ["/v2/models/iris"],
    ("replicas",): [1, 2, 3],
}
"""Typical values, by property."""

HARMFUL: dict[Path_, list[Any]] = {
    ("podTemplate", "spec"): [
        {"tolerate": []},
        {"containers": [{"name": "runtime", "imagePullPolicy": "Sometimes"}]},
    ],
    ("serviceAccountName",): ["misspelt"],
    ("model", "name"): ["org/iris"],
    ("runtime", "name"): ["misspelt", "moving"],
    ("model", "format"): ["misspelt"],
    ("smokeTests", "tests"): [
        [
            {
                "name": "fails",
                "inputs": [
                    {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0]}
                ],
                "outputs": [{"name": "y", "data": [7]}],
            }
        ],
        [
            {
                "name": "fails",
                "request": {"path": "/v1/chat/completions", "body": {}},
                "expect": [{"jsonPath": "choices[0].message.content", "value": "other"}],
            }
        ],
    ],
    ("contract",): [{"policy": "Enforce", "inputs": [{"name": "other", "datatype": "BYTES"}]}],
    ("tls",): [
        {"secretName": "iris-tls"},
        {"secretName": "other-tls", "serverName": "iris.example.com"},
    ],
    ("tls", "secretName"): ["iris-tls", "renamed"],
    ("tls", "serverName"): ["iris.example.com"],
    ("replicas",): [0],
    ("suspend",): [True],
    ("paused",): [True],
    ("rollout", "strategy"): ["Canary"],
    ("protocol",): ["GRPS", "TensorFlowServing", "Auto", "None"],
    ("transport",): ["GRPC"],
    ("model", "uri"): ["oci://registry.example/models:1", "hf://owner/name"],
}
"""Values that may prevent serving, which are never part of a sequence's last spec."""

FIXED = {("runtime", "image"), ("runtime", "ports", "http")}
"""Properties that are set together, because a port selects a server: see `steps.IMAGES`."""

HARMLESS_BY_SCHEMA: set[Path_] = {
    ("disruptionBudget", "policy"),
    ("health", "periodSeconds"),
    ("health", "failureThreshold"),
    ("health", "terminationGracePeriodSeconds"),
    ("health", "readinessTarget"),
    ("runtime", "ports", "grpc"),
    ("contract", "policy"),
    ("smokeTests", "policy"),
    ("rollout", "onFailure"),
    ("rollout", "blueGreen", "keepSeconds"),
}
"""Properties for which every valid value allows the model to serve."""


def spec_schema(crd_file: Path = CRD) -> Schema:
    """The schema of `spec`."""
    crd = yaml.safe_load(crd_file.read_text())
    (version,) = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def properties(schema: Schema, path: Path_ = ()) -> Iterator[tuple[Path_, Schema]]:
    """Every property below, with its path; those of a list's items belong to the list."""
    for name, below in (schema.get("properties") or {}).items():
        yield (*path, name), below
        yield from properties(below, (*path, name))


def harmless(path: Path_) -> bool:
    """Whether the property may be part of a spec that has to serve."""
    return path in MEANT or path in HARMLESS_BY_SCHEMA


def value(random_: random.Random, path: Path_, schema: Schema) -> Any:
    """A value that the schema allows."""
    if path in MEANT:
        return random_.choice(MEANT[path])
    return _made(random_, schema)


def bad_value(random_: random.Random, path: Path_, schema: Schema) -> Any:
    """A value that keeps the model from serving, or that the schema forbids."""
    if path in HARMFUL and random_.random() < 0.7:
        return random_.choice(HARMFUL[path])
    wrong: list[Any] = [None, [], {}, "", "\u202eabc", -1, 1 << 40, 1.5, True, "x" * 2000]
    if "minimum" in schema:
        wrong.append(schema["minimum"] - 1)
    if "maximum" in schema:
        wrong.append(schema["maximum"] + 1)
    if "enum" in schema:
        wrong.append(str(schema["enum"][0]).lower())
    return random_.choice(wrong)


def _made(random_: random.Random, schema: Schema) -> Any:
    if "enum" in schema:
        return random_.choice(schema["enum"])
    least = schema.get("minimum", 0)
    most = min(schema.get("maximum", least + 5), least + 5)
    below = schema.get("properties") or {}
    required = schema.get("required") or []
    names = [each for each in below if each in required or random_.random() < 0.4]
    by_type: dict[str, Any] = {
        "boolean": random_.random() < 0.5,
        "integer": random_.choice([least, most, schema.get("default", least)]),
        "number": schema.get("default", 0.5),
        "array": [],
        "object": {each: _made(random_, below[each]) for each in names},
    }
    return by_type.get(schema.get("type", ""), random_.choice(["iris", "1"]))
