"""The children: probes, storage, podTemplate and hashes."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api import labels
from moorage_operator.resources import endpoints
from moorage_operator.resources.deployment import make_deployment
from moorage_operator.resources.explicit import explicit
from moorage_operator.resources.owned import applied_hash
from moorage_operator.resources.pod_template import canonical_hash, make_pod_template, revision_of
from moorage_operator.resources.references import references
from moorage_operator.resources.service import make_service
from moorage_operator.values.observed import Reference, ReferenceKind
from support.operator_values import CONFIG, model


def template(**spec):
    return make_pod_template(model(**spec), CONFIG)


def container(**spec):
    return template(**spec)["spec"]["containers"][0]


def handler(probe):
    """The one handler of a probe, without times and scheme."""
    found = {key: value for key, value in probe.items() if isinstance(value, dict)}
    assert len(found) == 1
    return found


def get(path, port=8000):
    return {"httpGet": {"path": path, "port": port, "scheme": "HTTP"}}


def tcp(port):
    return {"tcpSocket": {"port": port}}


GRPC = {"transport": "GRPC"}
TFS = {"protocol": "TensorFlowServing"}
OPENAI = {"protocol": "OpenAI", "runtime": {"image": "other:1"}}
PLAIN = {
    "protocol": "None",
    "runtime": {"image": "other:1"},
    "paths": {"ready": "/readyz"},
}
GRPS = {"protocol": "GRPS"}
AUTO = {"protocol": "Auto"}
OTHER = {"runtime": {"image": "other:1"}}


@pytest.mark.parametrize(
    ("spec", "ready", "live"),
    [
        ({}, get("/v2/models/digits/ready"), get("/v2/health/live")),
        (
            {"model": {"name": "n", "version": "3"}},
            get("/v2/models/n/versions/3/ready"),
            get("/v2/health/live"),
        ),
        (
            {"health": {"readinessTarget": "Server"}},
            get("/v2/health/ready"),
            get("/v2/health/live"),
        ),
        ({"paths": {"ready": "/r", "live": "/l"}}, get("/r"), get("/l")),
        (
            {"paths": {"ready": "/r", "modelReady": "/m"}},
            get("/m"),
            get("/v2/health/live"),
        ),
        (
            {"runtime": {"image": "other:1", "ports": {"http": 8080}}},
            get("/v2/models/digits/ready", 8080),
            get("/v2/health/live", 8080),
        ),
        (
            GRPC,
            {"grpc": {"port": 8001, "service": "model:digits"}},
            {"grpc": {"port": 8001, "service": "liveness"}},
        ),
        (
            {**GRPC, "model": {"name": "n", "version": "3"}},
            {"grpc": {"port": 8001, "service": "model:n/3"}},
            {"grpc": {"port": 8001, "service": "liveness"}},
        ),
        (
            {**GRPC, "health": {"readinessTarget": "Server"}},
            {"grpc": {"port": 8001, "service": "readiness"}},
            {"grpc": {"port": 8001, "service": "liveness"}},
        ),
        (
            {**GRPC, "runtime": {"image": CONFIG.runtime_image}},
            {"grpc": {"port": 8001, "service": "model:digits"}},
            {"grpc": {"port": 8001, "service": "liveness"}},
        ),
        ({**GRPC, **OTHER}, {"tcpSocket": {"port": 8001}}, {"tcpSocket": {"port": 8001}}),
        (
            {**GRPC, **OTHER, "paths": {"ready": "/r"}},
            get("/r"),
            {"tcpSocket": {"port": 8001}},
        ),
        (TFS, get("/v1/models/digits/metadata"), tcp(8000)),
        (
            {**TFS, "model": {"version": "3"}, "runtime": {"ports": {"http": 8501}}},
            get("/v1/models/digits/versions/3/metadata", 8501),
            tcp(8501),
        ),
        ({**TFS, "paths": {"live": "/l", "modelReady": "/m"}}, get("/m"), get("/l")),
        (GRPS, get("/grps/v1/health/ready"), get("/grps/v1/health/live")),
        (
            {**GRPS, **GRPC},
            {"grpc": {"port": 8001, "service": "readiness"}},
            {"grpc": {"port": 8001, "service": "liveness"}},
        ),
        ({**GRPS, **GRPC, **OTHER}, tcp(8001), tcp(8001)),
        (AUTO, get("/v2/models/digits/ready"), get("/v2/health/live")),
        (OPENAI, get("/health"), get("/health")),
        (
            {**OPENAI, "paths": {"live": "/l", "ready": "/r", "modelReady": "/v3/models"}},
            get("/r"),
            get("/l"),
        ),
        (PLAIN, get("/readyz"), tcp(8000)),
        ({**PLAIN, "paths": {"live": "/l", "ready": "/r"}}, get("/r"), get("/l")),
        ({**AUTO, **OTHER}, tcp(8000), tcp(8000)),
        ({**AUTO, **OTHER, **GRPC}, tcp(8001), tcp(8001)),
        (
            {**AUTO, **OTHER, "paths": {"live": "/l", "modelReady": "/m"}},
            get("/m"),
            get("/l"),
        ),
    ],
)
def test_the_kubelet_probes(spec, ready, live):
    made = container(**spec)

    assert handler(made["readinessProbe"]) == ready
    assert handler(made["startupProbe"]) == ready
    assert handler(made["livenessProbe"]) == live


@pytest.mark.parametrize(
    ("health", "period", "threshold"),
    [
        ({}, 1, 600),
        ({"timeoutSeconds": 1}, 1, 600),
        ({"periodSeconds": 10}, 1, 600),
        ({"startupTimeoutSeconds": 5}, 1, 5),
        ({"timeoutSeconds": 3}, 2, 301),
        ({"timeoutSeconds": 60}, 30, 21),
        ({"startupTimeoutSeconds": 7, "timeoutSeconds": 60}, 7, 2),
        ({"startupTimeoutSeconds": 7, "timeoutSeconds": 4}, 2, 5),
    ],
)
def test_the_startup_probe_lasts_as_long_as_the_model_may_load(health, period, threshold):
    probe = container(health=health)["startupProbe"]

    assert (probe["periodSeconds"], probe["failureThreshold"]) == (period, threshold)


def test_the_readiness_probe_uses_the_spec_and_liveness_is_slower():
    health = {"periodSeconds": 1, "timeoutSeconds": 4, "failureThreshold": 7}
    made = container(health=health)

    times = {"periodSeconds": 1, "timeoutSeconds": 4, "failureThreshold": 7}
    assert times.items() <= made["readinessProbe"].items()
    assert {**times, "periodSeconds": 10}.items() <= made["livenessProbe"].items()


@pytest.mark.parametrize(
    ("uri", "volume", "repository"),
    [
        (
            "pvc://weights/a/b",
            {"persistentVolumeClaim": {"claimName": "weights", "readOnly": True}},
            "/mnt/models/a/b",
        ),
        (
            "pvc://weights",
            {"persistentVolumeClaim": {"claimName": "weights", "readOnly": True}},
            "/mnt/models",
        ),
        ("configmap://files", {"configMap": {"name": "files"}}, "/mnt/models"),
    ],
)
def test_the_model_is_mounted_read_only(uri, volume, repository):
    made = template(model={"uri": uri})

    runtime = made["spec"]["containers"][0]
    assert {"name": "model", **volume} in made["spec"]["volumes"]
    assert runtime["volumeMounts"][0] == {
        "name": "model",
        "mountPath": "/mnt/models",
        "readOnly": True,
    }
    assert runtime["env"][:2] == [
        {"name": "MOORAGE_MODEL_REPOSITORY", "value": repository},
        {"name": "MOORAGE_MODEL_NAME", "value": "digits"},
    ]


def test_a_remote_model_is_downloaded_before_the_server_starts():
    uri = "s3://models/a$(HOME)?region=eu-west-1"
    download = {"sizeLimit": "20Gi", "resources": {"limits": {"memory": "1Gi"}}}
    spec = {"uri": uri, "credentials": {"secretName": "reader"}, "download": download}

    made = template(model=spec)["spec"]

    (fetch,) = made["initContainers"]
    assert fetch == {
        "name": "fetch",
        "image": CONFIG.runtime_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["moorage-fetch"],
        "args": [
            *("s3://models/a$$(HOME)?region=eu-west-1", "--volume", "/mnt/volume"),
            *("--message-file", "/dev/termination-log", "--size-limit", "20Gi"),
        ],
        "envFrom": [{"prefix": "MOORAGE_CREDENTIAL_", "secretRef": {"name": "reader"}}],
        "resources": {"limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "model", "mountPath": "/mnt/volume"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    assert {"name": "model", "emptyDir": {"sizeLimit": "20Gi"}} in made["volumes"]
    assert made["containers"][0]["volumeMounts"][0] == {
        "name": "model",
        "mountPath": "/mnt/models",
        "subPath": "model",
        "readOnly": True,
    }
    assert references({"spec": made}) == {Reference(ReferenceKind.SECRET, "reader")}


def test_the_patterns_of_files_are_arguments_of_the_download():
    files = {"include": ["*.onnx", "a$(HOME)"], "exclude": ["-b"]}

    (fetch,) = template(model={"uri": "hf://o/n", "files": files})["spec"]["initContainers"]

    assert fetch["args"][-3:] == ["--include=*.onnx", "--include=a$$(HOME)", "--exclude=-b"]


def test_a_public_model_is_downloaded_without_a_secret():
    made = template(model={"uri": "https://host/iris.tgz"})["spec"]

    (fetch,) = made["initContainers"]
    assert "envFrom" not in fetch
    assert fetch["args"] == [
        *("https://host/iris.tgz", "--volume", "/mnt/volume"),
        *("--message-file", "/dev/termination-log"),
    ]
    assert {"name": "model", "emptyDir": {}} in made["volumes"]
    assert fetch["resources"]["limits"] == {"memory": "512Mi"}


IMAGE = "oci://registry.example:5000/models/iris:1"
DIGEST = "oci://registry.example/iris@sha256:" + "0" * 64
SECRET = {"credentials": {"secretName": "reader"}}


@pytest.mark.parametrize(
    ("spec", "available", "volume"),
    [
        ({"uri": IMAGE}, True, {"reference": IMAGE[6:], "pullPolicy": "IfNotPresent"}),
        ({"uri": f"{IMAGE}?path=a"}, True, {"reference": IMAGE[6:], "pullPolicy": "IfNotPresent"}),
        ({"uri": DIGEST}, True, {"reference": DIGEST[6:], "pullPolicy": "IfNotPresent"}),
        (
            {"uri": IMAGE, "imageVolume": "Always"},
            False,
            {"reference": IMAGE[6:], "pullPolicy": "IfNotPresent"},
        ),
        ({"uri": IMAGE}, False, None),
        ({"uri": IMAGE, "imageVolume": "Never"}, True, None),
        ({"uri": IMAGE, **SECRET}, True, None),
        ({"uri": IMAGE, "download": {"sizeLimit": "1Gi"}}, True, None),
        ({"uri": IMAGE, "files": {"include": ["*.onnx"]}}, True, None),
        ({"uri": "s3://models/iris"}, True, None),
    ],
)
def test_an_image_is_mounted_if_supported_and_without_download_settings(spec, available, volume):
    config = replace(CONFIG, image_volumes=available)

    made = make_pod_template(model(model=spec), config)["spec"]

    (found,) = [each for each in made["volumes"] if each["name"] == "model"]
    (mount,) = [each for each in made["containers"][0]["volumeMounts"] if each["name"] == "model"]
    assert found.get("image") == volume
    assert ("initContainers" in made) is (volume is None)
    assert ("subPath" in mount) is (volume is None)
    folder = "/mnt/models/a" if "path" in spec["uri"] else "/mnt/models"
    assert made["containers"][0]["env"][0]["value"] == folder


def test_a_download_has_more_time_to_make_progress():
    def seconds(uri: str) -> int:
        spec = model(model={"uri": uri})
        made = make_deployment(spec, make_pod_template(spec, CONFIG))
        return made["spec"]["progressDeadlineSeconds"]

    assert seconds("s3://models/a") - seconds("pvc://models/a") == 1800


def test_an_image_with_the_model_gets_no_volume_and_no_repository():
    made = template(**OTHER)

    runtime = made["spec"]["containers"][0]
    assert "volumes" not in made["spec"]
    assert [item["name"] for item in runtime["env"]] == ["MOORAGE_HTTP_PORT", "MOORAGE_GRPC_PORT"]
    assert "args" not in runtime


def test_the_users_environment_takes_precedence():
    env = [{"name": "MOORAGE_MODEL_NAME", "value": "mine"}, {"name": "A", "value": "1"}]
    made = container(runtime={"env": env})["env"]

    assert {"name": "MOORAGE_MODEL_NAME", "value": "mine"} in made
    assert made[-1] == {"name": "A", "value": "1"}
    assert len({item["name"] for item in made}) == len(made)


def test_pods_keep_to_the_restricted_profile():
    made = template()["spec"]

    assert made["automountServiceAccountToken"] is False
    assert made["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert made["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_scheduling_fields_are_the_pods_own():
    fields = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"podAffinity": {}},
        "priorityClassName": "high",
        "serviceAccountName": "models",
        "imagePullSecrets": [{"name": "registry"}],
    }

    assert fields.items() <= template(**fields)["spec"].items()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["shared", "mirror"]),
        ({"imagePullSecrets": [{"name": "team"}]}, ["shared", "mirror", "team"]),
        ({"imagePullSecrets": [{"name": "mirror"}]}, ["shared", "mirror"]),
        ({"runtime": {"image": "server:1"}}, []),
        ({"runtime": {"image": "server:1"}, "imagePullSecrets": [{"name": "team"}]}, ["team"]),
        (
            {"runtime": {"image": "server:1"}, "model": {"uri": "s3://bucket/iris"}},
            ["shared", "mirror"],
        ),
    ],
)
def test_pods_with_the_bundled_image_get_the_pull_secrets_of_the_installation(spec, expected):
    config = replace(CONFIG, image_pull_secrets=("shared", "mirror"))

    made = make_pod_template(model("digits", **{"model": {"uri": "pvc://a/b"}, **spec}), config)

    found = made["spec"].get("imagePullSecrets", [])
    assert [item["name"] for item in found] == expected


def test_the_pod_template_is_merged_and_the_selector_is_kept():
    overlay = {
        "metadata": {
            "labels": {"team": "risk", labels.MODEL: "stolen", labels.REVISION: "no"},
            "annotations": {"scrape": "true"},
        },
        "spec": {
            "securityContext": {"fsGroup": 5},
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "more"}],
            "containers": [
                {
                    "name": "runtime",
                    "livenessProbe": None,
                    "readinessProbe": {"grpc": {"port": 9}, "periodSeconds": 4},
                },
                {"name": "sidecar", "image": "s"},
            ],
        },
    }
    plain, made = template(), template(podTemplate=overlay)

    metadata, spec = made["metadata"], made["spec"]
    assert metadata["labels"]["team"] == "risk"
    assert metadata["labels"][labels.MODEL] == "digits"
    assert revision_of(made) not in {"no", revision_of(plain)}
    assert metadata["annotations"] == {"scrape": "true"}
    assert spec["securityContext"] == {**plain["spec"]["securityContext"], "fsGroup": 5}
    assert [volume["name"] for volume in spec["volumes"]] == ["model", "tmp", "more"]
    assert spec["volumes"][1] == {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}
    assert [each["name"] for each in spec["containers"]] == ["runtime", "sidecar"]
    runtime = spec["containers"][0]
    assert "livenessProbe" not in runtime
    assert handler(runtime["readinessProbe"]) == {"grpc": {"port": 9}}
    assert runtime["readinessProbe"]["periodSeconds"] == 4
    assert runtime["readinessProbe"]["failureThreshold"] == 3
    assert runtime["image"] == CONFIG.runtime_image


ENFORCED = {"contract": {"policy": "Enforce", "inputs": [{"name": "x", "datatype": "FP32"}]}}
OUR_GATE = {"conditionType": "moorage.dev/model-ready"}


@pytest.mark.parametrize(
    ("theirs", "gates"),
    [
        ([{"conditionType": "shop.example/routed"}], ["shop.example/routed"]),
        ([OUR_GATE], []),
        ([], []),
        (None, []),
    ],
)
def test_the_users_readiness_gates_are_kept(theirs, gates):
    made = template(**ENFORCED, podTemplate={"spec": {"readinessGates": theirs}})

    found = [each["conditionType"] for each in made["spec"]["readinessGates"]]
    assert sorted(found) == sorted([OUR_GATE["conditionType"], *gates])


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("server", "Always"),
        ("server:latest", "Always"),
        ("server:1", "IfNotPresent"),
        ("registry:5000/team/server", "Always"),
        ("registry:5000/team/server:2", "IfNotPresent"),
        ("server@sha256:0123", "IfNotPresent"),
        ("server:latest@sha256:0123", "Always"),
    ],
)
def test_the_pull_policy_is_explicit_for_the_image_of_the_spec(image, policy):
    sidecar = {"name": "proxy", "image": image}
    made = template(runtime={"image": image}, podTemplate={"spec": {"containers": [sidecar]}})[
        "spec"
    ]

    assert [each["imagePullPolicy"] for each in made["containers"]] == [policy, policy]


def test_a_pull_policy_of_the_spec_is_kept():
    overlay = {"spec": {"containers": [{"name": "runtime", "imagePullPolicy": "Never"}]}}

    assert container(runtime={"image": "s"}, podTemplate=overlay)["imagePullPolicy"] == "Never"


@pytest.mark.parametrize("containers", [1, [1, {}, {"image": 5}, {"image": ""}, {"image": None}]])
def test_malformed_containers_are_left_to_the_api_server(containers):
    made = explicit({"containers": containers, "initContainers": containers})

    assert made["containers"] == made["initContainers"] == containers


@pytest.mark.parametrize(
    ("spec", "account"),
    [
        ({}, "default"),
        ({"serviceAccountName": "models"}, "models"),
        ({"podTemplate": {"spec": {"serviceAccountName": "other"}}}, "other"),
        ({"podTemplate": {"spec": {"serviceAccount": "older"}}}, "older"),
    ],
)
def test_the_service_account_is_set_in_both_fields(spec, account):
    made = template(**spec)["spec"]

    assert (made["serviceAccountName"], made["serviceAccount"]) == (account, account)


def test_references_are_the_required_objects_of_a_pod():
    overlay = {"spec": {
        "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "settings"}}]}],
        "volumes": [
            {"name": "s", "secret": {"secretName": "keys"}},
            {"name": "o", "configMap": {"name": "optional", "optional": True}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "part"}}]}},
            "not a volume",
        ],
    }}  # fmt: skip
    env = [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}]

    found = references(
        template(model={"uri": "pvc://weights/x"}, runtime={"env": env}, podTemplate=overlay)
    )

    assert found == {
        Reference(ReferenceKind.PERSISTENT_VOLUME_CLAIM, "weights"),
        Reference(ReferenceKind.SECRET, "keys"),
        Reference(ReferenceKind.SECRET, "part"),
        Reference(ReferenceKind.SECRET, "token"),
        Reference(ReferenceKind.CONFIG_MAP, "settings"),
    }


def test_the_deployment_removes_no_serving_pod_first():
    made = model(replicas=3)
    spec = make_deployment(made, make_pod_template(made, CONFIG))["spec"]

    assert spec["replicas"] == 3
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": 0}
    assert (
        spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    )
    assert spec["progressDeadlineSeconds"] == 900


def test_children_belong_to_the_model():
    metadata = make_service(model())["metadata"]

    owner = metadata["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "InferenceModel",
        "uid-digits",
        True,
    )
    assert "blockOwnerDeletion" not in owner


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner)
    ),
)


@given(JSON)
def test_the_hash_is_stable_across_versions(value: Any) -> None:
    # Another hash of the same template would restart every pod.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert canonical_hash(value) == hashlib.sha256(text.encode()).hexdigest()


def test_the_hash_follows_the_object():
    def hash_of(**spec):
        made = model(**spec)
        return applied_hash(make_deployment(made, make_pod_template(made, CONFIG)))

    assert hash_of() == hash_of()
    assert hash_of() != hash_of(replicas=2)


def test_replicas_and_polling_create_no_new_revision():
    plain = revision_of(template())

    assert revision_of(template(replicas=5, health={"pollIntervalSeconds": 7})) == plain
    assert revision_of(template(model={"name": "other"})) != plain


def test_the_service_exposes_the_ports_of_the_runtime():
    ports = make_service(model(runtime={"ports": {"http": 80, "grpc": 90}}))["spec"]["ports"]

    assert [(port["name"], port["port"], port["targetPort"]) for port in ports] == [
        ("http", 80, 80),
        ("grpc", 90, 90),
    ]


def test_an_openai_server_is_told_the_name_so_that_another_one_needs_new_pods():
    first, other = (template(**OPENAI, model={"name": name}) for name in ("a", "b"))

    assert {"name": "MOORAGE_MODEL_NAME", "value": "a"} in first["spec"]["containers"][0]["env"]
    assert first["metadata"]["labels"] != other["metadata"]["labels"]


NAMED = {"runtime": {"name": "triton", "image": "triton:1"}}
NAME = {"name": "MOORAGE_MODEL_NAME", "value": "digits"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {**NAMED, "model": {"uri": "pvc://weights/a"}},
            [
                {"name": "MOORAGE_MODEL_REPOSITORY", "value": "/mnt/models/a"},
                NAME,
                {"name": "MOORAGE_MODEL_PATH", "value": "/mnt/models/a"},
            ],
        ),
        (NAMED, [NAME]),
        (OTHER, []),
    ],
)
def test_the_command_of_an_inference_runtime_gets_the_name_and_the_path(spec, expected):
    assert [each for each in container(**spec)["env"] if "_MODEL_" in each["name"]] == expected


@pytest.mark.parametrize(
    ("policy", "image", "expected"),
    [
        ("Always", "", "Always"),
        ("", "", "IfNotPresent"),
        ("Always", "other:1", "IfNotPresent"),
        ("Never", "other", "Always"),
    ],
)
def test_the_pull_policy_of_the_installation_is_for_its_own_image(policy, image, expected):
    config = replace(CONFIG, image_pull_policy=policy)

    made = make_pod_template(
        model(runtime={"image": image}, model={"uri": "s3://models/iris"}), config
    )["spec"]

    assert made["containers"][0]["imagePullPolicy"] == expected
    assert made["initContainers"][0]["imagePullPolicy"] == (policy or "IfNotPresent")


TENSOR = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}


@pytest.mark.parametrize(
    ("contract", "tests", "edited", "restarts"),
    [
        ("Enforce", "Warn", "contract", True),
        ("Enforce", "Warn", "tests", False),
        ("Warn", "Enforce", "contract", False),
        ("Warn", "Enforce", "tests", True),
        ("Enforce", "Enforce", "contract", True),
        ("Enforce", "Enforce", "tests", True),
        ("Warn", "Warn", "contract", False),
        ("Warn", "Warn", "tests", False),
    ],
)
def test_only_an_edit_of_an_enforced_check_restarts_the_pods(contract, tests, edited, restarts):
    def made(datatype="FP32", name="a"):
        inputs = [{"name": "x", "datatype": datatype}]
        return template(
            contract={"policy": contract, "inputs": inputs},
            smokeTests={"policy": tests, "tests": [{"name": name, "inputs": [TENSOR]}]},
        )

    other = made(datatype="FP64") if edited == "contract" else made(name="b")

    assert (revision_of(made()) != revision_of(other)) is restarts


def urls(**spec):
    """URLs by protocol and transport, in the status's order."""
    listed = endpoints.urls(model("iris", **spec), CONFIG, None)
    return {(item["protocol"], item["transport"]): item["url"] for item in listed}


HOST = "iris.ns.svc.cluster.local"


def test_urls_are_usable_by_clients():
    assert urls(model={"name": "Iris.v2", "version": "3"}) == {
        ("OpenInference", "HTTP"): f"http://{HOST}:8000/v2/models/Iris.v2/versions/3/infer",
        ("OpenInference", "GRPC"): f"grpc://{HOST}:8001",
        ("TensorFlowServing", "HTTP"): f"http://{HOST}:8000/v1/models/Iris.v2/versions/3:predict",
        ("GRPS", "HTTP"): f"http://{HOST}:8000/grps/v1/infer/predict?model=Iris.v2-3",
        ("GRPS", "GRPC"): f"grpc://{HOST}:8001",
    }


@pytest.mark.parametrize(
    ("spec", "first"),
    [({}, "/v2/models/iris/infer"), (TFS, "/v1/models/iris:predict"),
     (GRPS, "/grps/v1/infer/predict?model=iris")],
)  # fmt: skip
def test_the_url_of_the_spec_is_the_first(spec, first):
    assert next(iter(urls(**spec).values())) == f"http://{HOST}:8000{first}"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (GRPC, {("OpenInference", "GRPC"): f"grpc://{HOST}:8001"}),
        (TFS, {("TensorFlowServing", "HTTP"): f"http://{HOST}:8000/v1/models/iris:predict"}),
        (GRPS, {("GRPS", "HTTP"): f"http://{HOST}:8000/grps/v1/infer/predict"}),
        (OPENAI, {("OpenAI", "HTTP"): f"http://{HOST}:8000/v1"}),
        (
            {**OPENAI, "paths": {"modelReady": "/v3/models"}},
            {("OpenAI", "HTTP"): f"http://{HOST}:8000/v3"},
        ),
        (PLAIN, {("None", "HTTP"): f"http://{HOST}:8000"}),
    ],
)
def test_another_image_only_has_the_url_of_the_specs_protocol(spec, expected):
    assert urls(**{**OTHER, **spec}) == expected


@pytest.mark.parametrize(
    ("spec", "drains"),
    [({}, False), (TFS, False), (GRPS, False), ({**GRPS, **GRPC}, False),
     ({**GRPS, **OTHER}, True), ({**GRPS, **GRPC, **OTHER}, False)],
)  # fmt: skip
def test_a_grps_server_of_another_image_is_set_offline_before_it_stops(spec, drains):
    stop = {"preStop": get("/grps/v1/health/offline")}

    assert (container(**spec).get("lifecycle") == stop) == drains


def test_a_hook_of_the_spec_replaces_that_of_another_image():
    hook = {"preStop": {"exec": {"command": ["drain"]}}}
    own = {"podTemplate": {"spec": {"containers": [{"name": "runtime", "lifecycle": hook}]}}}

    assert container(**OTHER, **own)["lifecycle"] == hook


PROBED = {
    "podTemplate": {"spec": {"containers": [{"name": "runtime", "readinessProbe": {"grpc": {}}}]}}
}
TIMED = {
    "podTemplate": {
        "spec": {"containers": [{"name": "runtime", "readinessProbe": {"periodSeconds": 20}}]}
    }
}
SIDECAR = {"podTemplate": {"spec": {"containers": [{"name": "s", "readinessProbe": {"a": {}}}]}}}


@pytest.mark.parametrize(
    ("spec", "gated"),
    [
        ({}, False),
        ({**GRPC}, False),
        ({**GRPS}, False),
        ({**TFS, **OTHER}, False),
        ({**AUTO}, False),
        ({**OTHER}, False),
        ({**OTHER, **GRPC}, True),
        ({**OTHER, **GRPC, **PROBED}, False),
        ({**OTHER, **GRPC, **TIMED}, True),  # the handler is still that of an open port
        ({**OTHER, **GRPC, **SIDECAR}, True),
        ({**OTHER, **GRPC, "paths": {"ready": "/r"}}, False),
        ({**OTHER, **GRPS}, True),
        ({**OTHER, **GRPS, "paths": {"modelReady": "/m"}}, False),
        ({**OTHER, **GRPS, **GRPC}, True),
        ({**OTHER, **AUTO}, True),
        (OPENAI, True),
        ({**OPENAI, "paths": {"ready": "/v1/models"}}, True),
        ({**OPENAI, "health": {"readinessTarget": "Server"}}, False),
        ({**OPENAI, **PROBED}, False),
        ({**OPENAI, **TIMED}, True),
        (PLAIN, False),
        ({"contract": {"policy": "Enforce", "inputs": [{"name": "x"}]}}, True),
        ({"contract": {"policy": "Enforce", "inputs": [{"name": "x"}]}, **PROBED}, True),
        ({"contract": {"policy": "Enforce"}}, False),
        ({"contract": {"policy": "Warn", "inputs": [{"name": "x"}]}}, False),
    ],
)
def test_a_pod_has_a_gate_if_its_probe_is_not_sufficient(spec, gated):
    gates = template(**spec)["spec"].get("readinessGates", [])

    assert gates == ([{"conditionType": "moorage.dev/model-ready"}] if gated else [])
