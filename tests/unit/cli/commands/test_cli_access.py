"""Queries to a model with TLS and tokens: the bundled runtime behind a port-forward."""

import argparse
import base64
import contextlib
import json
import math
import socket
from types import SimpleNamespace

import httpx
import pytest

from moorage_cli import __main__ as program
from moorage_cli.ask import cluster as connected
from moorage_cli.ask.port_forward import PortForward
from moorage_cli.commands.page_actions import page_actions
from moorage_cli.commands.shell import Shell
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.tables import Palette
from support.certificates import DAY, Authority
from support.manifests import DIGITS
from support.runtime import running
from support.waiting import eventually

NAME = "digits.models.svc"
TOKENS = {"b": "another-token", "a": "\nfirst-token\nsecond-token\n"}
FORBIDDEN = 'secrets is forbidden: User "ann" cannot get resource "secrets"'
SAMPLE = DIGITS / "samples" / "digit-3.json"


class SecuredCluster:
    """A cluster with one model and its Secrets, whose pod is a server of this machine."""

    namespace = "models"

    def __init__(self, runtime, secrets, *, forbidden=(), **spec):
        self.ports = {8000: runtime.http_port, 8001: runtime.grpc_port}
        self.secrets, self.forbidden, self.spec = secrets, forbidden, spec
        self.objects = SimpleNamespace(find=self.find)

    def find(self, kind, namespace, name):
        assert (kind, namespace) == ("Secret", "models")
        if name in self.forbidden:
            raise Failure(f"Secret models/{name}: {FORBIDDEN}")
        if name not in self.secrets:
            return None
        values = self.secrets[name]
        return {"data": {key: base64.b64encode(values[key].encode()).decode() for key in values}}

    def model(self, namespace, name):
        spec = {"tls": {"secretName": "tls"}, "access": {"tokenSecretName": "tokens"}}
        return {
            "metadata": {"name": name, "namespace": namespace, "generation": 1},
            "spec": {**spec, **self.spec},
            "status": {
                "observedGeneration": 1,
                "selector": "a=b",
                "protocol": {"detected": "OpenInference"},
                "endpoints": [
                    {"url": f"https://{NAME}.cluster.local:8000/v2/models/digits/infer"}
                ],
            },
        }

    def pods(self, namespace, selector):
        del namespace, selector
        ports = [{"name": "http", "containerPort": 8000}, {"name": "grpc", "containerPort": 8001}]
        conditions = [{"type": "Ready", "status": "True"}]
        return [
            {
                "metadata": {"name": "digits-a"},
                "spec": {"containers": [{"name": "runtime", "ports": ports}]},
                "status": {"phase": "Running", "conditions": conditions},
            }
        ]

    def pod_metrics(self, namespace, selector):
        del namespace, selector
        return []

    def forward(self, namespace, pod, port):
        assert (namespace, pod) == ("models", "digits-a")
        address = ("127.0.0.1", self.ports[port])
        return PortForward(lambda: (socket.create_connection(address, 5), lambda: ""))


@pytest.fixture(scope="module")
def authority():
    return Authority()


@contextlib.contextmanager
def served(folder, issued):
    """The bundled runtime with a certificate and the tokens, once it answers."""
    options = [f"--model-repository={DIGITS}", "--model-name=digits"]
    (folder / "tokens").write_text("\n".join(TOKENS.values()))
    options.append(f"--token-file={folder}/tokens")
    if issued is not None:
        (folder / "crt").write_text(issued.certificate)
        (folder / "key").write_text(issued.key)
        options += [f"--tls-certificate={folder}/crt", f"--tls-key={folder}/key"]
    with running(*options) as runtime:
        scheme = "https" if issued else "http"
        eventually("the model is ready", lambda: ready(f"{scheme}://{runtime.http}"), bool, 60)
        yield runtime


def ready(base):
    return httpx.get(f"{base}/v2/health/ready", verify=False).status_code == 200


@pytest.fixture(scope="module")
def runtime(authority, tmp_path_factory):
    with served(tmp_path_factory.mktemp("server"), authority.issue(NAME)) as made:
        yield made


@pytest.fixture
def secrets(authority):
    return {"tls": {"tls.crt": "x", "ca.crt": authority.certificate}, "tokens": TOKENS}


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command line against a cluster; returns status, output and errors."""

    def run(cluster, *arguments):
        monkeypatch.setattr(connected, "Cluster", lambda *_: cluster)
        code = program.main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def infer(run, cluster, *options, transport="HTTP"):
    return run(cluster, "infer", "digits", "-f", str(SAMPLE), f"--transport={transport}", *options)


BOTH = pytest.mark.parametrize("transport", ["HTTP", "GRPC"])


@BOTH
def test_the_ca_and_the_first_token_come_from_the_secrets(run, runtime, secrets, transport):
    cluster = SecuredCluster(runtime, secrets)

    code, out, err = infer(run, cluster, transport=transport)

    assert (code, err) == (0, "")
    assert [each["name"] for each in json.loads(out)["outputs"]] == ["label", "probabilities"]


@BOTH
def test_files_take_the_place_of_secrets_that_may_not_be_read(
    run, runtime, authority, tmp_path, transport
):
    cluster = SecuredCluster(runtime, {}, forbidden=("tls", "tokens"))
    (tmp_path / "ca").write_text(authority.certificate)
    (tmp_path / "token").write_text("another-token\n")
    options = (f"--ca-file={tmp_path}/ca", f"--token-file={tmp_path}/token")

    assert infer(run, cluster, *options, transport=transport)[0] == 0


@pytest.mark.parametrize(
    ("change", "forbidden", "facts"),
    [
        ({}, ("tokens",), [FORBIDDEN, "--token-file"]),
        ({}, ("tls",), [FORBIDDEN, "--ca-file", "is not among the CAs of this machine"]),
        ({"tokens": None}, (), ["Secret models/tokens does not exist", "--token-file"]),
        ({"tokens": {"a": " \n"}}, (), ["Secret models/tokens has no token", "one per line"]),
        ({"tls": None}, (), ["Secret models/tls does not exist", "--ca-file"]),
        ({"tls": {"tls.crt": "x"}}, (), ["Secret models/tls has no ca.crt", "--ca-file"]),
        ({"tls": {"ca.crt": "x"}}, (), ["ca.crt of Secret models/tls has no valid certificate"]),
        (
            {"tls": {"ca.crt": Authority("other").certificate}},
            (),
            ["not among ca.crt of Secret models/tls", "correct the Secret"],
        ),
    ],
)
def test_what_cannot_be_read_or_verified_is_named_with_the_fix(
    run, runtime, secrets, change, forbidden, facts
):
    given = {key: value for key, value in {**secrets, **change}.items() if value is not None}
    cluster = SecuredCluster(runtime, given, forbidden=forbidden)

    for transport in ("HTTP", "GRPC"):
        code, out, err = infer(run, cluster, transport=transport)

        assert (code, out) == (1, "")
        assert all(fact in err for fact in facts), err
        assert not any(token in err for value in TOKENS.values() for token in value.split())


@BOTH
def test_a_certificate_for_another_name_is_refused_and_servername_corrects_it(
    run, secrets, authority, tmp_path, transport
):
    with served(tmp_path, authority.issue("digits.example.com")) as other:
        code, _, err = infer(run, SecuredCluster(other, secrets), transport=transport)
        assert (code, f"its certificate is not for {NAME}" in err) == (1, True), err

        tls = {"secretName": "tls", "serverName": "digits.example.com"}
        cluster = SecuredCluster(other, secrets, tls=tls)
        assert infer(run, cluster, transport=transport)[0] == 0


@BOTH
def test_an_expired_certificate_is_refused(run, secrets, authority, tmp_path, transport):
    expired = authority.issue(NAME, since=-2 * DAY, until=-DAY)
    with served(tmp_path, expired) as other:
        code, _, err = infer(run, SecuredCluster(other, secrets), transport=transport)

    assert (code, "its certificate has expired: renew it" in err) == (1, True), err


@BOTH
def test_a_server_without_tls_gets_no_token(run, secrets, tmp_path, transport):
    with served(tmp_path, None) as plain:
        code, _, err = infer(run, SecuredCluster(plain, secrets), transport=transport)

        assert (code, "the server does not speak TLS" in err) == (1, True), err
        cluster = SecuredCluster(plain, secrets, tls=None)
        assert infer(run, cluster, transport=transport)[0] == 0


@pytest.mark.parametrize(
    ("transport", "status"), [("HTTP", "HTTP 401"), ("GRPC", "UNAUTHENTICATED")]
)
def test_a_token_that_the_server_does_not_accept_is_reported(
    run, runtime, secrets, transport, status
):
    cluster = SecuredCluster(runtime, {**secrets, "tokens": {"a": "of-yesterday"}})

    code, out, _ = infer(run, cluster, transport=transport)

    assert (code, out.startswith(status)) == (1, True)


def test_a_ca_for_a_model_in_plaintext_is_invalid_usage(run, runtime, secrets, tmp_path):
    (tmp_path / "ca").write_text("x")
    cluster = SecuredCluster(runtime, secrets, tls=None)

    code, _, err = infer(run, cluster, f"--ca-file={tmp_path}/ca")

    assert (code, "has no spec.tls" in err) == (2, True)


def test_a_token_file_without_a_token_is_refused(run, runtime, secrets, tmp_path):
    (tmp_path / "token").write_text("two words\n\u00e4\n")

    code, _, err = infer(run, SecuredCluster(runtime, secrets), f"--token-file={tmp_path}/token")

    assert (code, "has no token" in err) == (1, True)


def test_top_reads_the_metrics_with_the_token_and_notes_a_missing_right(run, runtime, secrets):
    code, out, _ = run(SecuredCluster(runtime, secrets), "top", "digits", "-o", "json")
    (row,) = json.loads(out)["replicas"]
    assert (code, row["requests"] is not None, json.loads(out)["notes"]) == (0, True, [])

    cluster = SecuredCluster(runtime, secrets, forbidden=("tokens",))
    code, out, _ = run(cluster, "top", "digits", "-o", "json")
    found = json.loads(out)
    assert (code, found["replicas"][0]["requests"]) == (0, None)
    assert FORBIDDEN in found["notes"][0]
    assert "digits requires a token: set --token-file" in found["notes"][0]


@BOTH
def test_bench_measures_through_the_port_forward_and_says_what_that_means(
    run, runtime, secrets, transport
):
    options = ("--rate=10", "--duration=1", "--data", str(SAMPLE), f"--transport={transport}")

    code, out, err = run(SecuredCluster(runtime, secrets), "bench", "digits", *options)

    assert (code, "10 sent, 10 succeeded, 0 failed" in out) == (0, True), out + err
    (note,) = [line for line in err.splitlines() if "port-forward" in line]
    assert "adds latency and limits the rate" in note


def test_bench_verifies_the_certificate_of_a_url(run, runtime, secrets, authority, tmp_path):
    (tmp_path / "ca").write_text(authority.certificate)
    (tmp_path / "token").write_text("first-token")
    files = (f"--ca-file={tmp_path}/ca", f"--token-file={tmp_path}/token", "--model=digits")
    cluster = SecuredCluster(runtime, secrets)

    for url in (f"https://{runtime.http}", f"grpcs://{runtime.grpc}"):
        code, out, err = run(cluster, "bench", url, *files)
        assert (code, out) == (1, "")
        assert "its certificate is not for this address" in err


def no_kubeconfig(_: argparse.Namespace) -> SecuredCluster:
    raise AssertionError("a page in a cluster has no kubeconfig")


def test_the_form_of_the_page_uses_the_secrets_too(runtime, secrets):
    cluster = SecuredCluster(runtime, secrets)
    shell = Shell(
        connect=no_kubeconfig,
        palette=Palette(coloured=False),
        show=print,
        live=None,
        tell=print,
        count=print,
    )
    actions = page_actions(shell, lambda: cluster)

    fields = {"namespace": "models", "name": "digits", "request": SAMPLE.read_text()}
    assert actions.do("infer", fields)["ok"] is True
    asked = json.loads(fields["request"])
    asked["inputs"][0]["data"] = [float("nan")] * math.prod(asked["inputs"][0]["shape"])
    answer = actions.do("infer", fields | {"request": json.dumps(asked)})
    assert "NaN" in answer["text"]
    json.dumps(answer, allow_nan=False)  # a browser reads JSON without NaN
    with pytest.raises(Failure, match="request: must be a text"):
        actions.do("infer", fields | {"request": json.loads(SAMPLE.read_text())})
    assert actions.do("top", {"namespace": "models", "name": "digits"})["document"]["notes"] == []
