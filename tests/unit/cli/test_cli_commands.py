"""The program against a fake cluster: usage, failures, colours and names."""

import contextlib
import importlib.metadata
import json
import socket

import pytest

from moorage_cli import __main__ as program
from moorage_cli.ask.port_forward import PortForward
from support.cli_cluster import FakeCluster


def test_a_missing_model_is_status_1(run):
    code, out, err = run(FakeCluster(), "status", "rose", "-n", "other")

    assert (code, out) == (1, "")
    assert err == "moorage: inferencemodel other/rose: not found\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "iris", "-A"],
        ["conformance", "ftp://host"],
        ["conformance", "http://"],
        ["infer", "iris"],
        ["infer", "iris", "-f", "x", "--timeout", "0"],
        ["infer", "iris", "-f", "x", "--protocol", "SOAP"],
        ["completion", "tcsh"],
        ["nope"],
    ],
)
def test_invalid_usage_is_status_2(run, arguments):
    code, out, err = run(FakeCluster(), *arguments)

    assert (code, out) == (2, "")
    assert err


def test_without_a_command_the_help_is_printed(run):
    code, out, err = run(FakeCluster())

    assert (code, err) == (0, "")
    assert "usage: " in out
    assert "status" in out


def test_version_prints_the_version(run):
    code, out, err = run(FakeCluster(), "--version")

    assert (code, err) == (0, "")
    assert importlib.metadata.version("moorage-cli") in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["lint", "/"], "is a directory"),
        (["lint", "{onnx}", "--model", "/"], "is a directory"),
        (["lint", "{onnx}"], "is not UTF-8"),
        (["conformance", "127.0.0.1:1"], "connection refused"),
    ],
)
def test_an_error_of_the_system_has_no_number_and_no_class_name(run, tmp_path, arguments, reason):
    binary = tmp_path / "model.onnx"
    binary.write_bytes(b"\xff\xfe")
    code, _, err = run(FakeCluster(), *(word.format(onnx=binary) for word in arguments))

    assert code == 1
    assert reason in err
    assert "Errno" not in err
    assert "Error" not in err


def test_an_unreachable_api_server_is_one_line_without_library_names(tmp_path, capfd):
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "contexts": [context], "current-context": "x"}
    kubeconfig.write_text(json.dumps({**config, "users": [{"name": "u", "user": {}}]}))
    code = program.main(["status", "--kubeconfig", str(kubeconfig)])
    err = capfd.readouterr().err

    assert code == 1
    assert err.splitlines() == [err.rstrip()]
    assert "connection refused" in err
    for noise in ("HTTPSConnection", "urllib3", "Errno", "retries"):
        assert noise not in err


def test_a_missing_file_is_reported_without_an_error_number(run, tmp_path):
    missing = str(tmp_path / "missing")

    for arguments in (["lint", missing], ["infer", "iris", "-f", missing]):
        code, _, err = run(FakeCluster(), *arguments)
        assert code == 1
        assert f"{missing} cannot be read: no such file or directory" in err


def test_colours_need_a_terminal_without_no_color(run, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in run(FakeCluster(), "status")[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x1b[32mTrue" in run(FakeCluster(), "status")[1]
    assert "\x1b" not in run(FakeCluster(), "status", "-o", "json")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(FakeCluster(), "status")[1]


def test_a_plugin_has_the_name_of_kubectl_in_errors(run, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-moorage"])

    assert run(FakeCluster(), "status", "rose")[2].startswith("kubectl moorage: ")


def test_a_forwarded_port_transfers_bytes_both_ways_and_closes():
    near, far = socket.socketpair()
    with contextlib.ExitStack() as stack:
        stack.callback(far.close)
        forward = stack.enter_context(PortForward(lambda: (near, lambda: "")))
        host, _, number = forward.address.partition(":")
        with socket.create_connection((host, int(number)), 5) as local:
            local.sendall(b"question")
            local.shutdown(socket.SHUT_WR)
            assert far.recv(100) == b"question"
            assert far.recv(100) == b""
            far.sendall(b"answer")
            far.shutdown(socket.SHUT_WR)
            assert local.recv(100) == b"answer"
            assert local.recv(100) == b""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(number)), 5)
