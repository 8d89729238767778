"""The operator and `moorage-fetch` agree: on the command line, on variables, and on every URI."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api import names
from moorage_operator.api.model_spec import BYTES
from moorage_operator.api.uri_patterns import PATTERNS
from moorage_operator.api.v1alpha1 import Scheme
from moorage_operator.resources import fetch as planned
from moorage_operator.resources.pod_template import make_pod_template
from moorage_runtime.fetch import __main__ as command
from moorage_runtime.fetch.decide import amounts, credentials, failures, source
from moorage_runtime.fetch.transfer import volume
from support.operator_values import CONFIG, model

ROOT = Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "runtime" / "pyproject.toml").read_text()
FETCHED = sorted(scheme for scheme in Scheme if scheme.is_fetched)


def container(**spec):
    (made,) = make_pod_template(model(model=spec), CONFIG)["spec"]["initContainers"]
    return made


def test_the_planned_command_is_one_of_the_runtimes():
    assert f"{planned.COMMAND} = " in PROJECT


def test_the_planned_arguments_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(names, "FETCH_MOUNT_PATH", str(tmp_path))
    made = container(uri="s3://models/iris", download={"sizeLimit": "20Gi"})

    read = command._parser().parse_args(made["args"])

    assert read.uri == "s3://models/iris"
    assert read.volume == tmp_path
    assert read.size_limit == 20 * 1024**3
    assert str(read.message_file) == planned.MESSAGE_FILE


def test_the_planned_patterns_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(names, "FETCH_MOUNT_PATH", str(tmp_path))
    files = {"include": ["-a", "*.onnx"], "exclude": ["b c"]}

    read = command._parser().parse_args(container(uri="s3://models/iris", files=files)["args"])

    assert (read.include, read.exclude) == (["-a", "*.onnx"], ["b c"])


def test_names_are_the_same():
    assert planned.CREDENTIAL_PREFIX == credentials.PREFIX
    assert names.FETCHED_FOLDER == volume.MODEL_FOLDER


@given(st.from_regex(BYTES, fullmatch=True))
def test_every_size_limit_is_read(text):
    assert amounts.parse_quantity(text) > 0


@pytest.mark.parametrize("scheme", FETCHED)
def test_every_uri_that_the_api_server_takes_is_read_or_refused_with_a_sentence(scheme):
    @given(st.from_regex(PATTERNS[scheme], fullmatch=True))
    def check(uri):
        # a pattern cannot say all: what it lets through ends as a sentence of the container
        with contextlib.suppress(failures.BadSource):
            source.parse(uri)

    check()


@pytest.mark.parametrize(
    "uri",
    [
        "s3://models/iris", "s3://models", "s3://models/iris/?region=eu-west-1",
        "s3://my.models/a%20b?endpoint=http://minio:9000#sha256=" + "0" * 64,
        "gs://models/iris", "gs://models/iris?endpoint=http://gcs:4443",
        "azblob://account/models/iris", "azblob://account/models",
        "azblob://account/models/a?endpoint=http://azurite:10000#sha256=" + "0" * 64,
        "hf://org/iris", "hf://org/iris@refs%2Fpr%2F1/onnx", "hf://org/iris/onnx/model.onnx",
        "oci://registry.example/models/iris:1.0", "oci://registry:5000/iris:1?path=models/iris",
        "oci://registry.example/iris@sha256:" + "a" * 64,
        "https://host/iris.onnx", "https://host:8443/a/iris.tgz?token=a/b#sha256=" + "0" * 64,
    ],
)  # fmt: skip
def test_what_users_write_is_taken_by_both(uri):
    assert model(model={"uri": uri}).problems == ()
    assert source.parse(uri)
