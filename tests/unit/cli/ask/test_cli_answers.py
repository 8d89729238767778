"""Servers that are no Kubernetes API: no answer of one is taken for an object or a success."""

import json
from http import HTTPStatus
from pathlib import Path

import pytest

from moorage_cli import __main__ as program
from moorage_cli.ask import answers as reading
from support.canned_server import answering, http_answer, kubeconfig_of
from support.manifests import DIGITS

OK = HTTPStatus.OK
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
NO_API = "the response is not one of a Kubernetes API server: "
NO_ANSWER = "the API server does not answer: "
CLOSED = f"{NO_ANSWER}it closed the connection before the end of its response"
NO_HTTP = f"{NO_ANSWER}its response is not HTTP: check the server of the kubeconfig"
# What the server sends, and a part of the message.
ANSWERS = {
    "a login page": (http_answer(OK, b"<html>login</html>"), f"{NO_API}it is not JSON: '<html>"),
    "nothing": (http_answer(OK, b""), f"{NO_API}it is not JSON: it is empty"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", f"{NO_API}it is not JSON: it is empty"),
    "an unknown charset": (
        http_answer(OK, b"x", "content-type: text/plain; charset=nope"),
        f"{NO_API}it is not JSON: 'x'",
    ),
    "no UTF-8": (http_answer(OK, b"\xff\xfe"), f"{NO_API}it is not JSON"),
    "deep JSON": (http_answer(OK, b"[" * 200_000), f"{NO_API}it is not JSON"),
    "null": (http_answer(OK, b"null"), f"{NO_API}it is not a"),
    "a list": (http_answer(OK, b"[]"), f"{NO_API}it is not a"),
    "a string": (http_answer(OK, b'"x"'), f"{NO_API}it is not a"),
    "an empty object": (http_answer(OK, b"{}"), f"{NO_API}it is not a"),
    "metadata without a name": (
        http_answer(OK, b'{"metadata": {"name": ""}, "items": [{"metadata": {}}]}'),
        f"{NO_API}it is not an object with metadata.name",
    ),
    "items of other types": (
        http_answer(OK, b'{"metadata": {}, "items": [1, null]}'),
        f"{NO_API}it is not an object with metadata.name",
    ),
    "a redirect": (
        http_answer(HTTPStatus.FOUND, b"", "location: http://127.0.0.1:1/"),
        "HTTP 302 Found: a redirect is not followed: check the server of the kubeconfig",
    ),
    "an error in HTML": (
        http_answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"<html>\x1b[31m"),
        "HTTP 500 Internal Server Error",
    ),
    "an error without a message": (
        http_answer(HTTPStatus.BAD_GATEWAY, b'{"message": null}'),
        "HTTP 502 Bad Gateway",
    ),
    "half a body": (http_answer(OK, b'{"items":' + b" " * 99)[:-50], CLOSED),
    "half a chunk": (CHUNKED + b'9\r\n{"it', CLOSED),
    "a wrong chunk": (CHUNKED + b"zz\r\nabc", CLOSED),
    "a closed connection": (b"", CLOSED),
    "another protocol": (b"SSH-2.0-OpenSSH_9\r\n", NO_HTTP),
    "an endless header": (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000 + b"\r\n\r\n", NO_HTTP),
    "1000 headers": (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n", NO_HTTP),
    "no gzip": (
        http_answer(OK, b"not gzip", "content-encoding: gzip"),
        f"{NO_ANSWER}its response cannot be decompressed",
    ),
}
COMMANDS = (
    ["status"], ["status", "iris"], ["status", "--watch"], ["why", "iris"], ["wait", "iris"],
    ["rollout", "iris", "--watch"], ["scale", "iris", "2"], ["promote", "iris"],
    ["restart", "iris"], ["rollback", "iris"], ["pause", "iris"], ["logs", "iris"],
    ["events", "iris"], ["delete", "iris", "--yes"], ["top"], ["top", "iris"], ["runtimes"],
    ["runtimes", "triton"], ["bench", "iris"], ["ui", "--no-browser"],
    ["deploy", "s3://models/iris", "--name", "iris"],
)  # fmt: skip


def status_answer(status: HTTPStatus, message: str) -> bytes:
    """A failure of a Kubernetes API server, an object Status."""
    document = {"kind": "Status", "status": "Failure", "code": status.value, "message": message}
    return http_answer(status, json.dumps(document).encode())


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Runs a command against a server of this port; returns status, output and errors."""

    def run(port: int, *words: str) -> tuple[int, str, str]:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig_of(port))
        code = program.main([*words, "--kubeconfig", str(path)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.parametrize("name", ANSWERS)
def test_a_malformed_answer_is_a_failure_that_says_what_it_is(run, name: str) -> None:
    answer, message = ANSWERS[name]
    for words in (["status"], ["status", "iris"], ["delete", "iris", "--yes"]):
        with answering(answer) as server:
            code, out, err = run(server.port, *words)

        assert (code, out) == (1, "")
        assert message in err
        assert err.startswith("moorage: inferencemodel")
        assert err.count("\n") == 1


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_takes_an_answer_of_another_server_for_a_success(run, words: list[str]) -> None:
    for name in ("a login page", "an empty object", "204", "null"):
        with answering(ANSWERS[name][0]) as server:
            code, out, err = run(server.port, *words)

        assert (code, out) == (1, "")
        assert NO_API in err
        # nothing is written after the model could not be read
        assert {line.split()[0] for line in server.asked} <= {"GET", "PATCH"}
        assert ("PATCH" in str(server.asked)) == (words[0] == "deploy")


def test_without_the_crd_a_deployment_uploads_nothing(run) -> None:
    absent = http_answer(HTTPStatus.NOT_FOUND, b"404 page not found\n")
    with answering(absent) as server:
        code, out, err = run(server.port, "deploy", str(DIGITS / "model.onnx"), "--name", "iris")

    assert (code, out) == (1, "")
    assert "Moorage's CustomResourceDefinition inferencemodels.moorage.dev is not installed" in err
    assert [line.split()[0] for line in server.asked] == ["GET"]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_rejected_credentials_are_reported_with_what_to_do(run, words: list[str]) -> None:
    with answering(status_answer(HTTPStatus.UNAUTHORIZED, "Unauthorized")) as server:
        code, out, err = run(server.port, *words)

    assert (code, out) == (1, "")
    assert (
        ": HTTP 401 Unauthorized: the API server does not accept your credentials, which may have "
        "expired: log in to the cluster again, or choose another --context\n"
    ) in err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_without_the_crds_each_command_says_how_to_install_them(run, words: list[str]) -> None:
    plural = "inferenceruntimes" if words[0] == "runtimes" else "inferencemodels"
    with answering(http_answer(HTTPStatus.NOT_FOUND, b"404 page not found\n")) as server:
        code, out, err = run(server.port, *words)

    assert (code, out) == (1, "")
    assert (
        f": HTTP 404 Not Found: Moorage's CustomResourceDefinition {plural}.moorage.dev is not "
        "installed in this cluster: install it with the chart charts/moorage, as "
        "docs/how-to/install.md shows, or choose another --context\n"
    ) in err
    assert len(server.asked) == 1


NO_MODELS = http_answer(OK, b'{"metadata": {"resourceVersion": "7"}, "items": []}')
NO_MODEL = status_answer(HTTPStatus.NOT_FOUND, 'inferencemodels.moorage.dev "iris" not found')
NO_NAMESPACE = status_answer(HTTPStatus.NOT_FOUND, 'namespaces "models" not found')
NO_RIGHT = status_answer(HTTPStatus.FORBIDDEN, 'namespaces "models" is forbidden')
NAMESPACE = http_answer(OK, b'{"metadata": {"name": "models"}}')
FOUND_NONE = "No InferenceModels found.\n"
NOT_FOUND = 'moorage: inferencemodel models/iris: inferencemodels.moorage.dev "iris" not found\n'
NONEXISTENT = "moorage: namespace models does not exist: set --namespace to one that exists\n"


@pytest.mark.parametrize(
    ("words", "answers", "expected"),
    [
        (["status"], (NO_MODELS, NO_NAMESPACE), (1, "", NONEXISTENT)),
        (["status"], (NO_MODELS, NAMESPACE), (0, FOUND_NONE, "")),
        (["status"], (NO_MODELS, NO_RIGHT), (0, FOUND_NONE, "")),
        (["status", "--watch"], (NO_MODELS, NO_NAMESPACE), (1, "", NONEXISTENT)),
        (["status", "iris", "--watch"], (NO_MODEL, NO_NAMESPACE), (1, "", NONEXISTENT)),
        (["status", "iris", "--watch"], (NO_MODEL, NAMESPACE), (1, "", NOT_FOUND)),
        (["top"], (NO_MODELS, NO_NAMESPACE), (1, "", NONEXISTENT)),
        (["why", "iris"], (NO_MODEL, NO_NAMESPACE), (1, "", NONEXISTENT)),
        (["why", "iris"], (NO_MODEL, NAMESPACE), (1, "", NOT_FOUND)),
        (["why", "iris"], (NO_MODEL, NO_RIGHT), (1, "", NOT_FOUND)),
    ],
)
def test_a_namespace_that_does_not_exist_is_reported_if_the_user_may_see_that(
    run, words: list[str], answers: tuple[bytes, ...], expected: tuple[int, str, str]
) -> None:
    with answering(*answers) as server:
        assert run(server.port, *words) == expected

    assert server.asked[1] == "GET /api/v1/namespaces/models HTTP/1.1"


def test_the_models_of_all_namespaces_need_no_namespace(run) -> None:
    with answering(NO_MODELS) as server:
        assert run(server.port, "status", "-A") == (0, FOUND_NONE, "")

    assert len(server.asked) == 1


def test_a_deletion_that_the_server_does_not_confirm_is_a_failure(run) -> None:
    model = json.dumps({"metadata": {"name": "iris", "namespace": "models"}}).encode()
    with answering(http_answer(OK, model), http_answer(OK, b"<html>")) as server:
        code, out, err = run(server.port, "delete", "iris", "--yes")

    assert (code, out) == (1, "")
    assert "it is not JSON" in err
    assert server.asked[-1].split()[:2] == [
        "DELETE",
        "/apis/moorage.dev/v1alpha1/namespaces/models/inferencemodels/iris?propagationPolicy=Background",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"<html>\n", "it is not JSON: '<html>'"),
        (b"[1]\n", "it is not a watch: '[1]'"),
        (b'{"type": "ADDED", "object": 3}\n', "it is not an object with metadata.name"),
        (b'{"type": "ERROR", "object": {"code": 500, "message": "boom"}}\n', "boom"),
        (b'{"type": "ERROR", "object": 3}\n', "HTTP 500"),
    ],
)
def test_a_malformed_watch_is_a_failure(run, line: bytes, message: str) -> None:
    with answering(NO_MODELS, NAMESPACE, http_answer(OK, line)) as server:
        code, out, err = run(server.port, "status", "--watch")

    assert (code, out) == (1, "")
    assert message in err
    assert "watch=True&" not in server.asked[0]
    assert "resourceVersion=7" in server.asked[2]


def test_a_body_that_never_ends_is_given_up(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ANSWER_LIMIT", 1 << 20)
    endless = CHUNKED + b"200001\r\n" + b" " * 0x200001 + b"\r\n"
    with answering(endless) as server:
        assert f"{NO_API}it is larger than 1 MiB" in run(server.port, "status")[2]


def test_a_body_that_takes_too_long_is_given_up(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_SECONDS", -1.0)
    with answering(CHUNKED + b"1\r\n \r\n") as server:
        assert "it does not end within" in run(server.port, "status")[2]


def test_the_wait_that_an_overloaded_server_asks_for_is_limited(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "RETRY_AFTER_LIMIT_SECONDS", 0.01)
    overloaded = http_answer(
        HTTPStatus.TOO_MANY_REQUESTS, b'{"message": "slow down"}', "retry-after: 86400"
    )
    with answering(overloaded) as server:
        code, out, err = run(server.port, "status")

    assert (code, out, err) == (1, "", "moorage: inferencemodels: slow down\n")
    assert len(server.asked) == 4
