"""Devices in the resources of a server: what Kubernetes refuses, and GPUs that stay idle."""

from pathlib import Path

import pytest
import yaml

from moorage_cli.manifests.device_check import (
    MODEL_SERVER,
    RUNTIME_SERVER,
    device_problems,
    gpu_notes,
)
from moorage_cli.manifests.lint import lint
from moorage_cli.printing.tables import Palette
from support.cli_manifests import manifest

URI = {"uri": "pvc://models/segmenter"}
GPU = {"nvidia.com/gpu": 1}
GPUS = {"nvidia.com/gpu": 2}
ON_GPU = {"resources": {"limits": GPU}}
CUDA = {"name": "MOORAGE_EXECUTION_PROVIDER", "value": "cuda"}
CPU = {**CUDA, "value": "cpu"}
BUNDLED = "registry.example:5000/team/moorage-runtime-gpu:0.1.0"
TRITON = "registry.example/triton:25.07"


def model(spec=None, **server):
    return {"model": URI, "runtime": server, **(spec or {})}


def in_pod_template(**container):
    return {"podTemplate": {"spec": {"containers": [{"name": "runtime", **container}]}}}


def by_path(found):
    return [(each.path, each.message) for each in found]


@pytest.mark.parametrize(
    ("spec", "server", "path", "limit"),
    [
        (model(resources={"requests": GPU}), MODEL_SERVER, "spec.runtime", "no limit"),
        (
            model(resources={"requests": {"nvidia.com/gpu": "1"}}),
            MODEL_SERVER,
            "spec.runtime",
            "no limit",
        ),
        (
            model(resources={"requests": GPU, "limits": GPUS}),
            MODEL_SERVER,
            "spec.runtime",
            "a limit of 2",
        ),
        (
            model(in_pod_template(resources={"requests": GPU})),
            MODEL_SERVER,
            "spec.podTemplate.spec.containers[0]",
            "no limit",
        ),
        (
            model(in_pod_template(resources={"limits": GPUS}), resources={"requests": GPU}),
            MODEL_SERVER,
            "spec.podTemplate.spec.containers[0]",
            "a limit of 2",
        ),
        ({"resources": {"requests": GPU}}, RUNTIME_SERVER, "spec", "no limit"),
        (
            in_pod_template(resources={"requests": GPU}),
            RUNTIME_SERVER,
            "spec.podTemplate.spec.containers[0]",
            "no limit",
        ),
    ],
)
def test_a_request_of_a_device_must_equal_its_limit(spec, server, path, limit):
    sentence = (
        f"Kubernetes refuses a request of nvidia.com/gpu 1 with {limit}: set "
        f"{path}.resources.limits to {{nvidia.com/gpu: 1}} and omit the request"
    )

    assert by_path(device_problems(spec, server)) == [(f"{path}.resources", sentence)]


@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"limits": GPU},
        {"limits": GPU, "requests": GPU},
        {"limits": {"nvidia.com/gpu": "1"}, "requests": GPU},
        {"requests": {"cpu": 1, "ephemeral-storage": "1Gi"}},
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        {"requests": {"example.kubernetes.io/native": 1}},
    ],
)
def test_resources_that_kubernetes_accepts_are_no_problem(resources):
    assert by_path(device_problems(model(resources=resources), MODEL_SERVER)) == []


def test_other_requests_do_not_hide_that_of_a_device():
    spec = model(resources={"requests": {"cpu": 1, **GPU, "hugepages-2Mi": "64Mi"}})

    found = [each.message.partition(" with ")[0] for each in device_problems(spec, MODEL_SERVER)]

    assert found == [
        "Kubernetes refuses a request of nvidia.com/gpu 1",
        "Kubernetes refuses a request of hugepages-2Mi 64Mi",
    ]


def test_huge_pages_need_a_limit_too():
    spec = model(resources={"requests": {"hugepages-2Mi": "64Mi"}})
    (found,) = device_problems(spec, MODEL_SERVER)

    assert "a request of hugepages-2Mi 64Mi with no limit" in found.message


@pytest.mark.parametrize(
    ("own", "paths"),
    [
        ({"requests": GPU}, []),
        ({"requests": GPUS}, ["spec.runtime.resources"]),
        ({"limits": GPUS}, []),
        ({"requests": {"cpu": 1}}, []),
    ],
)
def test_the_limits_of_a_models_runtime_count(own, paths):
    of_runtime = {"image": TRITON, **ON_GPU}
    found = device_problems(model(name="gpus", resources=own), MODEL_SERVER, of_runtime)

    assert [each.path for each in found] == paths


def test_a_limit_that_differs_from_the_request_of_the_runtime_is_a_problem():
    of_runtime = {"resources": {"limits": GPU, "requests": GPU}}
    spec = model(name="gpus", resources={"limits": GPUS})
    (found,) = device_problems(spec, MODEL_SERVER, of_runtime)

    assert found.path == "spec.runtime.resources"
    assert "a request of nvidia.com/gpu 1 with a limit of 2" in found.message


@pytest.mark.parametrize(
    ("spec", "path", "advice"),
    [
        (model(**ON_GPU), "spec.runtime.image", "set spec.runtime.image to an image for GPUs"),
        (model(env=[CUDA], **ON_GPU), "spec.runtime.image", "to an image for GPUs"),
        (
            model(in_pod_template(**ON_GPU)),
            "spec.runtime.image",
            "the default image computes on the CPU only and leaves nvidia.com/gpu idle",
        ),
        (
            model(image=BUNDLED, **ON_GPU),
            "spec.runtime.env",
            "set MOORAGE_EXECUTION_PROVIDER to cuda in spec.runtime.env",
        ),
        (model(image=BUNDLED, env=[CPU], **ON_GPU), "spec.runtime.env", "on the CPU by default"),
        (
            model(image=BUNDLED, args=["--execution-provider=cpu"], env=[CUDA], **ON_GPU),
            "spec.runtime.env",
            "on the CPU by default",
        ),
        (
            model(resources={"limits": {"nvidia.com/mig-1g.5gb": 1}}),
            "spec.runtime.image",
            "leaves nvidia.com/mig-1g.5gb idle",
        ),
        (
            model(resources={"limits": {"amd.com/gpu": 1}}),
            "spec.runtime.image",
            "leaves amd.com/gpu idle",
        ),
    ],
)
def test_a_gpu_that_stays_idle_is_noted(spec, path, advice):
    (note,) = gpu_notes(spec, MODEL_SERVER)

    assert note.path == path
    assert advice in note.message
    assert note.message.endswith("as docs/how-to/gpus.md shows")


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        (ON_GPU, ["spec.image"]),
        ({"image": BUNDLED, **ON_GPU}, ["spec.env"]),
        ({"image": BUNDLED, "env": [CUDA], **ON_GPU}, []),
        ({"image": TRITON, **ON_GPU}, []),
        ({"image": BUNDLED}, []),
    ],
)
def test_a_gpu_of_a_runtime_that_stays_idle_is_noted(spec, paths):
    assert [each.path for each in gpu_notes(spec, RUNTIME_SERVER)] == paths


@pytest.mark.parametrize(
    "spec",
    [
        model(image=TRITON, **ON_GPU),
        model(image=BUNDLED, env=[CUDA], **ON_GPU),
        model(image=f"{BUNDLED}@sha256:{'a' * 64}", env=[CUDA], **ON_GPU),
        model(image=BUNDLED, args=["--execution-provider=cuda"], **ON_GPU),
        model(image=BUNDLED, args=["--execution-provider", "cuda"], env=[CPU], **ON_GPU),
        model(image=BUNDLED, command=["serve", "--execution-provider=cuda"], **ON_GPU),
        model(in_pod_template(image=TRITON), **ON_GPU),
        model(in_pod_template(env=[CUDA]), image=BUNDLED, **ON_GPU),
        model(in_pod_template(env=None, image=None), image=TRITON, **ON_GPU),
        model(resources={"limits": {"cpu": 1, "example.com/tpu": 1}}),
        model(),
    ],
)
def test_a_server_that_may_use_its_gpu_is_not_noted(spec):
    assert by_path(gpu_notes(spec, MODEL_SERVER)) == []


@pytest.mark.parametrize(
    ("of_runtime", "paths"),
    [
        ({"image": BUNDLED, "env": [CUDA]}, []),
        ({"image": BUNDLED}, ["spec.runtime.env"]),
        ({"image": TRITON}, []),
    ],
)
def test_a_gpu_of_a_model_is_compared_with_its_runtime(of_runtime, paths):
    found = gpu_notes(model(name="gpus", **ON_GPU), MODEL_SERVER, of_runtime)

    assert [each.path for each in found] == paths


def linted(*documents):
    return lint([("file", yaml.safe_dump_all(documents))], Palette(coloured=False))


def runtime(**spec):
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceRuntime",
        "metadata": {"name": "gpus"},
        "spec": spec,
    }


def test_lint_reports_a_request_of_models_and_runtimes():
    requested = {"resources": {"requests": GPU}}
    named = manifest(model(name="gpus", **requested))

    findings = linted(manifest(model(**requested)), runtime(**requested)).document["findings"]
    together = linted(named, runtime(image=TRITON, resources={"limits": GPUS})).document

    assert [each["path"] for each in findings] == ["spec.runtime.resources", "spec.resources"]
    assert [each["path"] for each in together["findings"]] == ["spec.runtime.resources"]


@pytest.mark.parametrize("chosen", [model(name="far"), {"model": {**URI, "format": "onnx"}}])
def test_lint_assumes_the_limits_and_the_image_of_a_runtime_that_no_file_has(chosen):
    server = {**chosen.get("runtime", {}), "resources": {"requests": GPU}}
    without_limit = linted(manifest({**chosen, "runtime": server}))
    with_limit = linted(manifest({**chosen, "runtime": {**server, **ON_GPU}}))

    assert (without_limit.ok, without_limit.notes) == (True, ())
    assert (with_limit.ok, with_limit.notes) == (True, ())


def test_the_notes_of_lint_fail_nothing():
    report = linted(
        manifest(model(**ON_GPU)),
        manifest(model(name="gpus", **ON_GPU)),
        runtime(image=BUNDLED, **ON_GPU),
    )

    assert report.ok
    assert [note.partition(": the ")[0] for note in report.notes] == [
        "file: checked: spec.runtime.image",
        "file: checked: spec.runtime.env",
        "file: InferenceRuntime gpus: spec.env",
    ]


def test_the_example_on_a_gpu_has_no_notes():
    text = Path("examples/11-gpu/inferencemodel.yaml").read_text(encoding="utf-8")
    report = lint([("example", text)], Palette(coloured=False))

    assert (report.ok, report.notes) == (True, ())
