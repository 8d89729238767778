"""The chart of runtimes as rendered by helm: what values change, and its start scripts."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from moorage_cli.manifests.lint import lint_text, schemas
from support.chart import refusal, template
from support.control_plane import kubectl_of
from support.operator_cluster import Api, install_runtimes_crd
from support.operator_runtimes import runtime
from support.runtime_set import ALL, CHART, SECTIONS, command_of, runtimes

pytestmark = pytest.mark.integration

NAMES = [
    "llama-cpp",
    "mlserver",
    "mlserver-lightgbm",
    "mlserver-sklearn",
    "mlserver-xgboost",
    "moorage",
    "openvino-model-server",
    "tensorflow-serving",
    "triton",
    "vllm",
]
VARIABLES = {
    "MOORAGE_MODEL_PATH",
    "MOORAGE_MODEL_NAME",
    "MOORAGE_HTTP_PORT",
    "MOORAGE_GRPC_PORT",
}


def formats(spec):
    return {item["name"]: item["priority"] for item in spec["formats"]}


def test_only_the_bundled_runtime_is_enabled_and_none_is_the_default():
    found = runtimes()

    assert list(found) == ["moorage"]
    assert "image" not in found["moorage"]
    assert not any("default" in spec for spec in runtimes(*ALL).values())


def test_every_runtime_can_be_enabled():
    assert sorted(runtimes(*ALL)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_operator_accepts_every_runtime(name):
    parsed = runtime(name, **runtimes(*ALL)[name])

    assert parsed.problems == ()
    assert parsed.formats
    assert parsed.name == name


def test_the_api_server_accepts_every_runtime(api: Api):
    install_runtimes_crd(api.kubeconfig)
    done = template(*ALL, "--set", "updatePolicy=Automatic", chart=CHART)

    answer = kubectl_of(api.kubeconfig, api.namespace).run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=done.stdout
    )

    assert answer.count("created (server dry run)") == len(NAMES)


def test_lint_finds_nothing_in_the_runtimes():
    done = template(*ALL, chart=CHART)

    assert lint_text("runtimes", done.stdout, schemas()) == []


@pytest.mark.parametrize("name", NAMES)
def test_commands_refer_only_to_variables_that_the_operator_sets(name):
    found = set(re.findall(r"MOORAGE_\w+", yaml.safe_dump(runtimes(*ALL)[name])))

    assert found <= VARIABLES
    # every other server listens where the Service expects it
    assert name == "moorage" or "MOORAGE_HTTP_PORT" in found


@pytest.mark.parametrize("name", sorted({*NAMES} - {"moorage"}))
def test_no_server_of_others_runs_as_root(name):
    pod = runtimes(*ALL)[name]["podTemplate"]["spec"]

    assert pod["securityContext"]["runAsUser"] >= 1000


def test_on_openshift_no_server_asks_for_a_user():
    found = runtimes(*ALL, "--set", "openshift=true")

    assert sorted(found) == NAMES
    assert "runAsUser" not in yaml.safe_dump(found)


def test_on_openshift_a_user_of_the_values_stays():
    words = "openshift=true,vllm.enabled=true,vllm.spec.podTemplate.spec.securityContext"
    found = runtimes("--set", f"{words}.runAsUser=1000690000")["vllm"]["podTemplate"]["spec"]

    assert found["securityContext"] == {"runAsUser": 1000690000}
    assert found["volumes"]


def test_a_value_makes_one_runtime_the_default():
    found = runtimes("--set", "moorage.default=true,triton.enabled=true")

    assert [name for name, spec in found.items() if spec.get("default")] == ["moorage"]


def test_the_default_of_mlserver_is_one_runtime():
    found = runtimes("--set", "mlserver.default=true,mlserver.enabled=true")

    assert [name for name, spec in found.items() if spec.get("default")] == ["mlserver"]


def test_two_defaults_are_refused_by_name():
    said = refusal(
        "--set", "moorage.default=true,vllm.default=true,vllm.enabled=true", chart=CHART
    )

    assert "moorage.default, vllm.default are true" in said


def test_a_default_that_is_not_enabled_does_not_count():
    assert runtimes("--set", "moorage.default=true,vllm.default=true")["moorage"]["default"]


def test_the_extras_of_the_image_add_their_formats():
    assert formats(runtimes()["moorage"]) == {"onnx": 30, "python": 30}
    assert set(formats(runtimes("--set", "moorage.extras={tables,text}")["moorage"])) == {
        "onnx",
        "python",
        "sklearn",
        "xgboost",
        "lightgbm",
        "catboost",
        "mlflow",
        "text-encoder",
    }


def test_formats_and_their_priority_can_be_replaced():
    words = ("--set", "triton.enabled=true,triton.formats={plan},triton.priority=99")

    assert formats(runtimes(*words)["triton"]) == {"plan": 99}


def test_no_two_runtimes_have_a_format_with_the_same_priority():
    extras = ("--set", "moorage.extras={openvino,tables,text}")
    found = [each for spec in runtimes(*ALL, *extras).values() for each in formats(spec).items()]

    assert len(set(found)) == len(found)


def test_an_implementation_can_be_added_and_removed():
    words = "mlserver.enabled=true,mlserver.implementations.xgboost=null"
    found = runtimes(
        "--set", f"{words},mlserver.implementations.mlflow=mlserver_mlflow.MLflowRuntime"
    )

    assert "mlserver-xgboost" not in found
    assert {"name": "MLSERVER_MODEL_IMPLEMENTATION", "value": "mlserver_mlflow.MLflowRuntime"} in (
        found["mlserver-mlflow"]["env"]
    )


def test_the_spec_of_a_section_lies_over_the_charts():
    words = "triton.spec.health.timeoutSeconds=9,triton.spec.podTemplate.spec.nodeSelector.gpu=l4"
    found = runtimes("--set", f"triton.enabled=true,{words}")["triton"]

    assert found["health"] == {"startupTimeoutSeconds": 1200, "timeoutSeconds": 9}
    assert found["podTemplate"]["spec"]["nodeSelector"] == {"gpu": "l4"}
    assert found["podTemplate"]["spec"]["securityContext"] == {"runAsUser": 1000}


def test_the_policy_and_the_namespaces_apply_to_every_runtime():
    words = "updatePolicy=Automatic,maxConcurrentRollouts=3,allowedNamespaces.matchLabels.a=b"

    for spec in runtimes(*ALL, "--set", words).values():
        assert (spec["updatePolicy"], spec["maxConcurrentRollouts"]) == ("Automatic", 3)
        assert spec["allowedNamespaces"] == {"selector": {"matchLabels": {"a": "b"}}}
    assert "allowedNamespaces" not in runtimes()["moorage"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("triton.image=", "/triton/image"),
        ("triton.imag=x", "/triton"),
        ("tritton.enabled=true", "tritton"),
        ("moorage.extras={onnx}", "/moorage/extras"),
        ("moorage.formats={ONNX}", "/moorage/formats"),
        ("vllm.priority=-1", "/vllm/priority"),
        ("updatePolicy=Never", "/updatePolicy"),
        ("openshift=maybe", "/openshift"),
        ("allowedNamespaces.labels.a=b", "/allowedNamespaces"),
    ],
)
def test_an_invalid_value_is_rejected_by_name(words, field):
    assert field in refusal("--set", words, chart=CHART)


# The scripts that start Triton and llama.cpp, with a program that prints its arguments.


@pytest.fixture
def started(tmp_path: Path):
    """Run the command of a runtime for a model at a path; exit code, output, errors."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("tritonserver", "llama-server"):
        (programs / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (programs / name).chmod(0o755)

    def start(runtime: str, path: Path | str, *args: str) -> tuple[int, list[str], str]:
        spec = runtimes(*ALL)[runtime]
        variables = {
            "MOORAGE_MODEL_NAME": "iris",
            "MOORAGE_HTTP_PORT": "8000",
            "MOORAGE_GRPC_PORT": "8001",
            **({"MOORAGE_MODEL_PATH": str(path)} if path else {}),
        }
        env = [{"name": name, "value": value} for name, value in variables.items()]
        done = subprocess.run(
            command_of({**spec, "args": list(args), "env": env}),
            env={**variables, "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    return start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a model, whose name needs quoting."""
    made = tmp_path / "mnt models"
    made.mkdir()
    return made


def test_triton_gets_a_repository_with_the_model_under_its_name(started, folder, tmp_path):
    (folder / "config.pbtxt").touch()

    code, words, _ = started("triton", folder, "--log-verbose=1", "--x=a b")

    assert code == 0
    assert words == [
        f"--model-repository={tmp_path}/models",
        "--exit-on-error=false",
        "--http-port=8000",
        "--grpc-port=8001",
        "--log-verbose=1",
        "--x=a b",
    ]
    assert (tmp_path / "models" / "iris" / "config.pbtxt").exists()


@pytest.mark.parametrize("runtime", ["triton", "llama-cpp"])
def test_a_model_without_files_is_explained(started, runtime):
    code, _, said = started(runtime, "")

    assert code != 0
    assert f"{runtime}: 1: MOORAGE_MODEL_PATH: is not set: set spec.model.uri" in said


def test_llama_cpp_gets_the_path_of_a_file(started, folder):
    file = folder / "a.gguf"
    file.touch()

    assert started("llama-cpp", file, "--ctx-size", "4096")[1] == [
        *("--model", str(file), "--alias", "iris"),
        *("--host", "0.0.0.0", "--port", "8000"),
        *("--ctx-size", "4096"),
    ]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["a.gguf", "README.md"], "a.gguf"),
        (["a.gguf", "mmproj-a.gguf"], "a.gguf"),
        (["a-00001-of-00003.gguf", "a-00002-of-00003.gguf", "a-00003-of-00003.gguf"],
         "a-00001-of-00003.gguf"),
    ],
)  # fmt: skip
def test_llama_cpp_finds_the_file_in_a_folder(started, folder, files, expected):
    for name in files:
        (folder / name).touch()

    code, words, _ = started("llama-cpp", folder)

    assert (code, words[1]) == (0, str(folder / expected))


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ([], "no *.gguf file in"),
        (["a.gguf", "b.gguf"], "keep one, or end spec.model.uri with the name of the file"),
        (["a-00001-of-00002.gguf", "b-00001-of-00002.gguf"], "keep one"),
    ],
)
def test_llama_cpp_refuses_a_folder_without_one_model(started, folder, files, sentence):
    for name in files:
        (folder / name).touch()

    code, _, said = started("llama-cpp", folder)

    assert code == 1
    assert sentence in said


def test_every_section_of_the_values_says_what_was_tried():
    values = (CHART / "values.yaml").read_text()

    for section in SECTIONS:
        above = values[: values.index(f"\n{section}:\n")].rsplit("\n\n", 1)[1]
        assert re.search(r"^# (Tried|Not run here): ", above, re.MULTILINE), section
