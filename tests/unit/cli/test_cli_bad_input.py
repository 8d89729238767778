"""Bad files, names and kubeconfigs: one sentence with the argument, the value and the fix."""

import socket
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from moorage_cli import __main__ as program
from support.canned_server import kubeconfig_of

FILES = {
    "empty": b"",
    "blank": b" \n",
    "bin": b"\xff\xfe\x00",
    "cut.json": b'{"inputs": [',
    "list.json": b"[]",
    "null.json": b"null",
    "true.json": b"true",
    "ok.json": b'{"inputs": []}',
    "cut.yaml": b"a: [1,\n b: }",
    "text.yaml": b"hello",
    "list.yaml": b"[1]",
    "number.yaml": b"3",
    "nul.yaml": b"a: \x00",
    "half.pem": b"-----BEGIN CERTIFICATE-----\nxx\n",
    "empty.onnx": b"",
    "m.onnx": b"xx",
    "isvc.yaml": (
        b"apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: a}\n"
        b"spec: {predictor: {model: {modelFormat: {name: onnx}, storageUri: 's3://abc/d'}}}\n"
    ),
}
URL = "http://127.0.0.1:1/v2/models/a"
TLS_URL = "https://127.0.0.1:1/v2/models/a"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command in a folder with the files, against a dead cluster."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "kubeconfig").write_text(kubeconfig_of(1))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = program.main(words)
        except SystemExit as ended:
            code = int(str(ended.code))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


# The content of a file that each command reads as text, and the end of the message.
UNREADABLE = [
    ("missing", "cannot be read: no such file or directory"),
    ("folder", "cannot be read: is a directory"),
    ("bin", "cannot be read: the text is not UTF-8"),
    ("m.onnx/x", "cannot be read: not a directory"),
    ("a\0b", "cannot be read: embedded null byte"),
]
READERS = {
    "--file": ["infer", "iris", "-f"],
    "--data": ["bench", "iris", "-f"],
    "FILE": ["convert"],
    "--ca-file": ["bench", TLS_URL, "--ca-file"],
    "--token-file": ["bench", URL, "--token-file"],
}


@pytest.mark.parametrize("argument", READERS)
def test_a_file_that_cannot_be_read_is_named_with_its_argument(run: Run, argument: str) -> None:
    for name, problem in UNREADABLE:
        code, out, err = run(*READERS[argument], name)

        shown = name.replace("\0", "\N{REPLACEMENT CHARACTER}")
        assert (code, out, err) == (1, "", f"moorage: {argument}: {shown} {problem}\n")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("empty", "is empty: must contain a JSON object"),
        ("blank", "is empty: must contain a JSON object"),
        ("cut.json", "is not valid JSON: line 1, column 13: "),
        ("text.yaml", "is not valid JSON: line 1, column 1: "),
        ("list.json", "must contain a JSON object, not []"),
        ("null.json", "must contain a JSON object, not null"),
        ("true.json", "must contain a JSON object, not true"),
    ],
)
def test_a_request_that_is_no_json_object_is_refused_before_any_request(
    run: Run, name: str, problem: str
) -> None:
    for argument, words in (("--file", ["infer", "iris"]), ("--data", ["bench", "iris"])):
        code, out, err = run(*words, "-f", name)

        assert (code, out) == (1, "")
        assert err.startswith(f"moorage: {argument}: {name} {problem}")


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["convert", "empty"], 1, "FILE: empty is empty: must contain a manifest"),
        (["convert", "blank"], 1, "FILE: blank is empty: must contain a manifest"),
        (["convert", "/dev/null"], 1, "FILE: /dev/null is empty: must contain a manifest"),
        (["convert", "cut.yaml"], 1, "cut.yaml: is not valid YAML: line 2, column 5: "),
        (["convert", "cut.json"], 1, "cut.json: is not valid YAML: line 1, column 13: "),
        (["convert", "nul.yaml"], 1, "nul.yaml: is not valid YAML: it contains a character"),
        (["convert", "text.yaml"], 1, "text.yaml: document 1: is plain text: must be a resource"),
        (
            ["convert", "list.yaml"],
            1,
            "list.yaml: document 1: is not an object: must be a resource",
        ),
        (["convert", "number.yaml"], 1, "number.yaml: document 1: is not an object: must be a "),
        (
            ["convert", "isvc.yaml", "--uri", "ftp://x"],
            2,
            "--uri: scheme ftp:// is not supported: must be one of pvc://, configmap://, s3://",
        ),
        (["convert", "isvc.yaml", "--uri", "x"], 2, "--uri: 'x' is invalid: must be one of pvc:"),
        (["convert", "isvc.yaml", "--uri", "s3://"], 2, "--uri: must be s3://BUCKET/PATH"),
        (
            ["run", "s3://models/iris"],
            2,
            "PATH: 's3://models/iris' is invalid: must be a file or folder of this machine; ",
        ),
        (["run", "missing"], 1, "PATH: missing does not exist: must be a model file or a folder"),
        (["run", "folder"], 1, "PATH: folder contains no model file: must contain MLmodel, "),
        (["run", "empty.onnx"], 1, "PATH: empty.onnx is empty: must be a model file or a folder"),
        (["run", "bin"], 1, "PATH: bin is not a model file: must be MLmodel, "),
        (
            ["run", "m.onnx", "--http-port", "8123", "--grpc-port", "8123"],
            2,
            "--grpc-port: 8123 is invalid: must differ from --http-port",
        ),
        (
            ["deploy", "missing", "--name", "a"],
            1,
            "PATH: missing does not exist: must be a model ",
        ),
        (["deploy", "empty.onnx", "--name", "a"], 1, "PATH: empty.onnx is empty: must be a model"),
        (["deploy", "x://y", "--name", "a"], 2, "PATH|URI: scheme x:// is not supported: must be"),
        (["deploy", "pvc://A_B/x", "--name", "a"], 2, "PATH|URI: must be pvc://CLAIM/PATH with a"),
        (
            ["deploy", "m.onnx", "--name", "a" * 235],
            2,
            f"--name: '{'a' * 235}' is invalid: must be at most 234 characters, because the Conf",
        ),
        (
            ["bench", TLS_URL, "--ca-file", "empty"],
            1,
            "--ca-file: empty is empty: must have a certificate in PEM",
        ),
        (
            ["bench", TLS_URL, "--ca-file", "half.pem"],
            1,
            "--ca-file: half.pem has no valid certificate in PEM",
        ),
        (
            ["bench", "iris", "--rate", "100000", "--duration", "86400"],
            2,
            "--rate 100000 for --duration 86400 is too much: must be at most 5000000 requests",
        ),
        (["bench", "http://"], 2, "NAME|URL: 'http://' is invalid: must be the name of a model"),
        (["bench", "http://h:99999/"], 2, "NAME|URL: 'http://h:99999/' is invalid: must be the"),
    ],
    ids=lambda each: " ".join(each)[:60] if isinstance(each, list) else "",
)
def test_bad_input_is_refused_with_one_sentence(
    run: Run, words: list[str], status: int, sentence: str
) -> None:
    code, out, err = run(*words)

    assert (code, out) == (status, "")
    assert err.startswith(f"moorage: {sentence}")
    assert err.count("\n") == 1


def test_the_longest_name_of_a_model_with_a_config_map_is_accepted(run: Run) -> None:
    assert run("deploy", "m.onnx", "--name", "a" * 234, "--dry-run")[0] == 0
    assert run("deploy", "m.onnx", "--name", "a" * 253, "--claim", "c", "--dry-run")[0] == 0
    assert run("deploy", "s3://abc/d", "--name", "a" * 253, "--dry-run")[0] == 0


@pytest.mark.parametrize("name", ["A", "a b", "a_b", "-a", "a" * 254])
def test_a_storage_class_that_kubernetes_refuses_is_refused(run: Run, name: str) -> None:
    code, out, err = run("deploy", "m.onnx", "--name", "a", f"--storage-class={name}")

    assert (code, out) == (2, "")
    assert f"argument --storage-class: '{name[:79]}" in err
    assert "is invalid: must be at most 253 lowercase letters" in err


@pytest.fixture
def closed_port() -> Generator[int]:
    """A port of this machine on which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize(
    "words",
    [
        ["infer", "iris", "-f", "ok.json"],
        ["bench", "iris"],
        ["deploy", "m.onnx", "--name", "a"],
        ["status"],
    ],
    ids=" ".join,
)
def test_an_api_server_that_does_not_answer_is_named(
    run: Run, closed_port: int, words: list[str]
) -> None:
    Path("kubeconfig").write_text(kubeconfig_of(closed_port))

    code, out, err = run(*words)

    assert (code, out, err.count("\n")) == (1, "", 1)
    expected = f"does not answer: connection refused (http://127.0.0.1:{closed_port})\n"
    assert err.endswith(expected)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file or directory"),
        (b"", "it is empty"),
        (b"\xff", "the text is not UTF-8"),
        (b"a: [", "k is not valid YAML"),
        (b"[]", "it must be an object with clusters, users and contexts"),
    ],
)
def test_an_unusable_kubeconfig_is_named_with_the_reason(
    run: Run, content: bytes | None, problem: str
) -> None:
    if content is not None:
        Path("k").write_bytes(content)
    for words in (
        ["infer", "a", "-f", "ok.json"],
        ["bench", "a"],
        ["deploy", "m.onnx", "--name=a"],
    ):
        code, out, err = run(*words, "--kubeconfig", "k")

        sentence = f"moorage: --kubeconfig: k is not a usable kubeconfig: {problem}\n"
        assert (code, out, err) == (1, "", sentence)
