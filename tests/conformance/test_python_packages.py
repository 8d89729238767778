"""Python models with packages of their own, installed from a folder of wheels."""

import concurrent.futures
import logging
import socket
from pathlib import Path

import pytest

from moorage_runtime.backends.python.packages import Packages
from moorage_runtime.values.errors import InvalidConfig
from support.runtime import running
from support.waiting import eventually
from support.wheels import requirement, write_wheel

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(120)]

MODEL = """\
import greeting
from moorage_runtime.backends.python import PythonModel


class Greeter(PythonModel):
    outputs = [("text", "BYTES", [1])]

    def predict(self, inputs, request):
        return {"text": [greeting.TEXT]}
"""
ISOLATED = "python: {isolation: process, requirements: true}\n"
INPUT = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    for version, text in (("1.0", "hello"), ("2.0", "good day")):
        write_wheel(folder, "greeting", version, f"TEXT = {text!r}\n")
    return folder


def write_model(folder: Path, requirements: str | None, config: str = ISOLATED) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(MODEL)
    (folder / "model.yaml").write_text(config)
    if requirements is not None:
        (folder / "requirements.txt").write_text(requirements)
    return folder / "model.py"


def pinned(wheels: Path, version: str) -> str:
    return requirement(wheels / f"greeting-{version}-py3-none-any.whl")


def test_two_models_of_one_server_have_different_versions_of_a_package(tmp_path, wheels):
    root = tmp_path / "models"
    write_model(root / "one", pinned(wheels, "1.0"))
    write_model(root / "two", pinned(wheels, "2.0"))
    write_model(root / "none", None, "python: {isolation: process}\n")
    write_model(root / "missing", "absent==1 --hash=sha256:" + "0" * 64)
    write_model(root / "shared", pinned(wheels, "1.0"), "python: {requirements: true}\n")
    options = (f"--python-packages={tmp_path / 'cache'}", f"--python-index={wheels}")

    with running(f"--model-repository={root}", *options) as runtime:

        def state(name: str) -> str:
            return runtime.get(f"/v2/models/{name}/ready").text

        for name, text in (("one", "hello"), ("two", "good day")):
            eventually(
                name, lambda name=name: runtime.get(f"/v2/models/{name}/ready").status_code,
                lambda status: status == 200, 60,
            )  # fmt: skip
            answer = runtime.post(f"/v2/models/{name}/infer", json={"inputs": [INPUT]})
            assert answer.json()["outputs"][0]["data"] == [text]
        for name, words in (
            ("none", "greeting"),
            ("missing", "absent==1"),
            ("shared", "set python.isolation to process"),
        ):
            eventually(name, lambda name=name: state(name), lambda said, w=words: w in said, 60)


def test_a_server_that_installs_no_packages_refuses_the_model(tmp_path, wheels):
    model = write_model(tmp_path / "m", pinned(wheels, "1.0"))

    with pytest.raises(InvalidConfig, match="MOORAGE_PYTHON_PACKAGES"):
        Packages().installed(model)


def test_models_with_the_same_file_share_one_installation(tmp_path, wheels, caplog):
    caplog.set_level(logging.INFO)
    models = [write_model(tmp_path / f"m{n}", pinned(wheels, "1.0")) for n in range(4)]
    makers = [Packages(tmp_path / "cache", str(wheels)) for _ in models]

    with concurrent.futures.ThreadPoolExecutor(len(models)) as pool:
        found = set(pool.map(lambda maker, model: maker.installed(model), makers, models))

    (only,) = found
    assert (only / "greeting.py").read_text() == "TEXT = 'hello'\n"
    assert len([each for each in caplog.records if "installing" in each.message]) == 1
    assert sorted(path.name for path in only.parent.iterdir()) == [only.name, f"{only.name}.lock"]


def test_an_installation_says_what_it_does_once_and_a_finished_one_says_nothing(tmp_path, wheels):
    text = pinned(wheels, "1.0") + "absent==1 ; python_version < '3' --hash=sha256:" + "0" * 64
    model = write_model(tmp_path / "m", text)
    packages = Packages(tmp_path / "cache", str(wheels))
    said: list[str] = []

    packages.installed(model, said.append)
    packages.installed(model, said.append)

    assert said == ["installing 2 packages of requirements.txt", ""]


def test_an_interrupted_installation_is_not_used(tmp_path, wheels):
    model = write_model(tmp_path / "m", pinned(wheels, "1.0"))
    packages = Packages(tmp_path / "cache", str(wheels))
    whole = packages.installed(model)
    partial = whole.with_name(f".{whole.name}-abc") / "packages"
    partial.parent.mkdir()
    whole.rename(partial)
    (partial / "greeting.py").write_text("half")

    again = packages.installed(model)

    assert again == whole
    assert (again / "greeting.py").read_text() == "TEXT = 'hello'\n"
    assert not partial.parent.exists()


def test_another_file_has_another_folder(tmp_path, wheels):
    packages = Packages(tmp_path / "cache", str(wheels))
    model = write_model(tmp_path / "m", pinned(wheels, "1.0"))
    first = packages.installed(model)
    model.with_name("requirements.txt").write_text(pinned(wheels, "2.0"))

    second = packages.installed(model)

    assert first != second
    assert (first / "greeting.py").read_text() != (second / "greeting.py").read_text()


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        (None, "there is no requirements.txt"),
        ("greeting==1.0\n", "line 1: 'greeting==1.0' has no hash"),
        ("greeting==1.0 --hash=sha256:" + "0" * 64, "DO NOT MATCH THE HASHES"),
        ("greeting==3.0 --hash=sha256:" + "0" * 64, "greeting==3.0"),
    ],
    ids=["no file", "no hash", "another hash", "no such version"],
)
def test_a_failure_is_one_clear_message_and_leaves_nothing(tmp_path, wheels, requirements, words):
    model = write_model(tmp_path / "m", requirements)

    with pytest.raises(InvalidConfig) as caught:
        Packages(tmp_path / "cache", str(wheels)).installed(model)

    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert [path for path in (tmp_path / "cache").glob("*") if path.suffix != ".lock"] == []


def test_an_index_that_does_not_answer_is_named_as_the_cause(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_RETRIES", "1")
    model = write_model(tmp_path / "m", "greeting==1.0 --hash=sha256:" + "0" * 64)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(InvalidConfig) as caught:
        Packages(tmp_path / "cache", f"http://127.0.0.1:{port}/simple").installed(model)

    assert "the package index does not answer: set --python-index" in caught.value.message


def test_a_source_distribution_is_never_built(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    # to read it would fail in another way
    (sources / "greeting-1.0.tar.gz").write_bytes(b"")
    model = write_model(tmp_path / "m", "greeting==1.0 --hash=sha256:" + "0" * 64)

    with pytest.raises(InvalidConfig, match="No matching distribution found"):
        Packages(tmp_path / "cache", str(sources)).installed(model)


def test_a_cache_that_is_not_a_folder_is_reported(tmp_path, wheels):
    model = write_model(tmp_path / "m", pinned(wheels, "1.0"))
    (tmp_path / "cache").write_text("a file")

    with pytest.raises(InvalidConfig, match="--python-packages"):
        Packages(tmp_path / "cache", str(wheels)).installed(model)
