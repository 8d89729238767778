"""Problems of InferenceRuntimes, and of models with the runtimes of the same files."""

import pytest
import yaml

from moorage_cli.manifests.lint import lint, lint_text, schemas
from moorage_cli.printing.tables import Palette
from support.cli_manifests import manifest

SCHEMAS = schemas()
TRITON = {
    "image": "registry.example/triton:1",
    "command": ["tritonserver", "--model-repository=$(MOORAGE_MODEL_PATH)"],
    "ports": {"http": 8000, "grpc": 8001},
    "formats": [{"name": "onnx", "priority": 1}],
}
URI = {"uri": "pvc://models/iris"}
GPU, GPUS = {"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}
CPU = {"maxReplicas": 2, "metrics": [{"type": "CPU", "target": 70}]}


def runtime(name="triton", **spec):
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceRuntime",
        "metadata": {"name": name},
        "spec": {**TRITON, **spec},
    }


def findings(*documents):
    found = lint_text("file", yaml.safe_dump_all(documents), SCHEMAS)
    return [(each.document, each.path, each.message) for each in found]


def test_a_valid_runtime_has_no_problems():
    node = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    name = {"name": "A", "value": "$(MOORAGE_MODEL_NAME)"}
    env = [name, node, {"name": "MOORAGE_B", "value": "b"}]
    assert findings(runtime(env=env, args=["$(MOORAGE_B)", "$$(MOORAGE_C)", "$(HOST)"])) == []


@pytest.mark.parametrize(
    ("spec", "path", "sentence"),
    [
        ({"imag": "x"}, "spec.imag", "unknown field; did you mean image?"),
        ({"ports": {"http": 8001, "grpc": 8001}}, "spec.ports", "must differ"),
        ({"formats": [{"name": "ONNX"}]}, "spec.formats[0].name", "must match"),
        ({"formats": [{"name": "a"}, {"name": "a"}]}, "spec.formats[1]", "duplicate name"),
        ({"maxConcurrentRollouts": 2}, "spec", "only to updatePolicy Automatic"),
        (
            {"podTemplate": {"spec": {"nodeselector": {}}}},
            "spec.podTemplate.spec.nodeselector",
            "did you mean nodeSelector?",
        ),
        (
            {"args": ["--path=$(MOORAGE_MODEL_PAHT)"]},
            "spec.args[0]",
            "a variable of the operator or of spec.env; did you mean $(MOORAGE_MODEL_PATH)?",
        ),
        (
            {"env": [{"name": "A", "value": "$(MOORAGE_X)"}]},
            "spec.env[0].value",
            "$(MOORAGE_X) is not a variable",
        ),
        (
            {"command": ["serve", "$(MOORAGE_MODEL)"]},
            "spec.command[1]",
            "$(MOORAGE_MODEL) is not a variable",
        ),
        (
            {"resources": {"requests": GPU}},
            "spec.resources",
            "a request of nvidia.com/gpu 1 with no limit",
        ),
    ],
)
def test_a_problem_is_reported_with_the_runtime_and_the_path(spec, path, sentence):
    (found,) = findings(runtime(**spec))

    assert found[:2] == ("InferenceRuntime triton", path)
    assert sentence in found[2]


def test_a_variable_unlike_all_others_has_no_suggestion():
    ((_, _, message),) = findings(runtime(args=["$(MOORAGE_TENSOR_PARALLEL_SIZE)"]))

    assert message == (
        "$(MOORAGE_TENSOR_PARALLEL_SIZE) is not a variable of the operator or of spec.env"
    )


def test_two_defaults_conflict():
    found = findings(runtime("a", default=True), runtime("b", default=True), runtime("c"))

    assert [each[:2] for each in found] == [("InferenceRuntime b", "spec.default")]
    assert found[0][2] == (
        "true conflicts with InferenceRuntime a: a namespace can have only one default; remove "
        "one, or set allowedNamespaces of both"
    )


def test_defaults_that_are_restricted_to_namespaces_do_not_conflict():
    some = {"selector": {"matchLabels": {"team": "a"}}}

    assert (
        findings(runtime("a", default=True, allowedNamespaces=some), runtime("b", default=True))
        == []
    )


def test_the_same_default_in_two_documents_does_not_conflict():
    assert findings(runtime("a", default=True), runtime("a", default=True)) == []


@pytest.mark.parametrize(
    ("spec", "path", "sentence"),
    [
        ({"model": URI, "runtime": {"name": "triton"}}, "", ""),
        ({"model": {**URI, "format": "onnx"}, "runtime": {"name": "triton"}}, "", ""),
        # a runtime that only the cluster may have
        ({"model": {**URI, "format": "gguf"}, "runtime": {"name": "other"}}, "", ""),
        (
            {"model": {**URI, "format": "gguf"}, "runtime": {"name": "triton"}},
            "spec.model.format",
            "'gguf' is not a format of the InferenceRuntime triton, whose formats are onnx",
        ),
        (
            {"model": URI, "runtime": {"name": "triton"}, "scaling": CPU},
            "spec.scaling.metrics[0]",
            "set spec.runtime.resources.requests.cpu",
        ),
    ],
)
def test_a_model_is_compared_with_its_runtime(spec, path, sentence):
    found = findings(runtime(), manifest(spec))

    assert [each[1] for each in found] == ([path] if path else [])
    assert not path or sentence in found[0][2]


@pytest.mark.parametrize(("formats", "listed"), [([], "none"), (["onnx", "plan"], "onnx, plan")])
def test_another_format_is_reported_with_those_of_the_runtime(formats, listed):
    server = runtime(formats=[{"name": each} for each in formats])
    model = manifest({"model": {**URI, "format": "gguf"}, "runtime": {"name": "triton"}})

    ((_, _, message),) = findings(server, model)

    assert message.endswith(f"whose formats are {listed}")


def test_a_device_of_a_model_is_compared_with_the_limit_of_its_runtime():
    server = runtime(resources={"limits": GPUS})
    own = {"name": "triton", "resources": {"requests": GPU}}

    ((_, path, message),) = findings(server, manifest({"model": URI, "runtime": own}))

    assert path == "spec.runtime.resources"
    assert "a request of nvidia.com/gpu 1 with a limit of 2" in message


def test_the_requests_of_the_runtime_count_for_scaling():
    with_requests = runtime(resources={"requests": {"cpu": 1}})
    model = manifest({"model": URI, "runtime": {"name": "triton"}, "scaling": CPU})

    assert findings(with_requests, model) == []


@pytest.mark.parametrize(
    "spec", [{"runtime": {"name": "far"}}, {"model": {**URI, "format": "onnx"}}]
)
def test_the_requests_of_a_runtime_that_no_file_has_are_assumed(spec):
    assert findings(manifest({"model": URI, "scaling": CPU, **spec})) == []


def test_runtimes_and_models_of_different_files_are_compared():
    model = manifest({"model": {**URI, "format": "gguf"}, "runtime": {"name": "triton"}})
    texts = [("runtimes", yaml.safe_dump(runtime())), ("models", yaml.safe_dump(model))]

    report = lint(texts, Palette(coloured=False))

    assert [each["file"] for each in report.document["findings"]] == ["models"]
    assert report.text.splitlines()[-1] == "runtimes: ok"
