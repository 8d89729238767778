"""TLS and tokens on real pods: clients over both transports, a renewed CA, and rotated tokens."""

import re
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from support.certificates import Authority, Issued
from support.kubectl import KIND, Kubectl
from support.manifests import digits, digits_files, sample
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PODS = "moorage.dev/model=digits"
SECURED = {"tls": {"secretName": "digits-tls"}, "access": {"tokenSecretName": "digits-tokens"}}
CONTRACT = {"inputs": [{"name": sample(3)["inputs"][0]["name"]}]}
# A kubelet updates the files of a Secret with its next sync of the pod, after a minute or more.
UPDATE_SECONDS = 240
PAUSE_SECONDS = 0.05


def put_certificate(kubectl: Kubectl, issued: Issued) -> None:
    put(kubectl, "digits-tls", issued.secret, "kubernetes.io/tls")


def put_tokens(kubectl: Kubectl, **tokens: str) -> None:
    put(kubectl, "digits-tokens", tokens, "Opaque")


def put(kubectl: Kubectl, name: str, data: Mapping[str, str], type_: str) -> None:
    metadata = {"name": name}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_}
    kubectl.apply({**body, "stringData": data})


def host(kubectl: Kubectl) -> str:
    return f"digits.{kubectl.namespace}.svc"


def serve(kubectl: Kubectl, authority: Authority, **spec: Any) -> str:
    """Serve the model with TLS and tokens, and return the address of its Service."""
    put_certificate(kubectl, authority.issue(host(kubectl)))
    put_tokens(kubectl, operator="token-of-operator", shop="token-of-shop")
    kubectl.apply(digits_files(), digits(**SECURED, **spec))
    kubectl.wait_condition("digits", "ModelReady", "False", "CertificateNotTrusted", seconds=120)
    said = kubectl.condition("digits", "ModelReady")["message"]
    (commands,) = re.findall(r"run: (kubectl .*?) \(docs/", said)
    subprocess.run(["/bin/sh", "-c", commands], env=dict(kubectl.env), check=True)
    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)
    return kubectl.get("service", "digits")["spec"]["clusterIP"]


def curl(kubectl: Kubectl, address: str, authority: Path, *words: str) -> str:
    """The status of an inference request by curl; the number of its error if there is none."""
    url = f"https://{host(kubectl)}:8000/v2/models/digits"
    command = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]
    command += ["--cacert", str(authority), "--resolve", f"{host(kubectl)}:8000:{address}"]
    done = subprocess.run([*command, *words, url], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"error {done.returncode}"


@pytest.mark.parametrize("transport", ["HTTP", "GRPC"])
def test_clients_need_the_ca_and_a_token(kubectl: Kubectl, tmp_path: Path, transport: str) -> None:
    authority = Authority()
    address = serve(kubectl, authority, transport=transport, contract=CONTRACT)
    ca = tmp_path / "ca.crt"
    ca.write_text(authority.certificate)
    other = tmp_path / "other.crt"
    other.write_text(Authority("another CA").certificate)
    token = ("--header", "Authorization: Bearer token-of-shop")

    assert curl(kubectl, address, ca) == "401"
    assert curl(kubectl, address, ca, *token) == "200"
    assert curl(kubectl, address, other, *token) == "error 60"

    assert call(kubectl, address, authority) == grpc.StatusCode.UNAUTHENTICATED
    assert call(kubectl, address, authority, "token-of-shop") is None
    kubectl.wait_condition("digits", "MetadataMatched", "True", "Matched", seconds=60)
    found = kubectl.get(KIND, "digits")["status"]["endpoints"]
    assert {each["url"].partition("://")[0] for each in found} == {"https", "grpcs"}


def call(
    kubectl: Kubectl, address: str, authority: Authority, token: str = ""
) -> grpc.StatusCode | None:
    """Query the metadata over gRPC; the error, or None."""
    credentials = grpc.ssl_channel_credentials(authority.certificate.encode())
    options = (("grpc.ssl_target_name_override", host(kubectl)),)
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    with grpc.secure_channel(f"{address}:8001", credentials, options) as channel:
        ask = channel.unary_unary("/inference.GRPCInferenceService/ServerMetadata")
        try:
            ask(b"", timeout=10, metadata=metadata)
        except grpc.RpcError as error:
            return error.code()
    return None


@dataclass
class Seen:
    """What clients have met: answers, failures, and the CAs of the servers."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)
    tokens: tuple[str, ...] = ()


@contextmanager
def clients(kubectl: Kubectl, address: str, *authorities: Authority) -> Iterator[Seen]:
    """Inference requests with new connections, until the end of the block."""
    context = ssl.create_default_context(cadata="".join(each.certificate for each in authorities))
    url = f"https://{address}:8000/v2/models/digits/infer"
    seen, ended = Seen(tokens=("token-of-shop",)), threading.Event()

    def send() -> None:
        while not ended.wait(PAUSE_SECONDS):
            for token in seen.tokens:
                headers = {"Authorization": f"Bearer {token}", "Host": host(kubectl)}
                extensions = {"sni_hostname": host(kubectl)}
                try:
                    with httpx.Client(verify=context, timeout=10) as client:
                        request = client.build_request(
                            "POST", url, json=sample(3), headers=headers
                        )
                        request.extensions |= extensions
                        answer = client.send(request)
                except httpx.HTTPError as error:
                    seen.failures.append(repr(error))
                    continue
                seen.answered += answer.is_success
                if not answer.is_success:
                    seen.failures.append(f"{answer.status_code} with {token}: {answer.text}")

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join(30)


def test_a_renewed_ca_and_rotated_tokens_interrupt_nothing(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    former, renewed = Authority("first CA"), Authority("second CA")
    address = serve(kubectl, former, contract=CONTRACT)
    pods = running(kubectl)
    since = kubectl.condition("digits", "Ready")["lastTransitionTime"]
    ca = tmp_path / "ca.crt"
    ca.write_text(renewed.certificate)

    with clients(kubectl, address, former, renewed) as seen:
        put_certificate(kubectl, renewed.issue(host(kubectl)))
        eventually(
            "the server has the renewed certificate",
            lambda: curl(kubectl, address, ca),
            lambda found: found == "401",
            UPDATE_SECONDS,
        )
        put_tokens(kubectl, operator="token-of-operator", shop="token-of-shop\nnext-token")
        accepts(kubectl, address, ca, "next-token", "200")
        seen.tokens = ("token-of-shop", "next-token")
        done = seen.answered
        eventually("both are in use", lambda: seen.answered, lambda now: now > done + 10, 30)
        seen.tokens = ("next-token",)
        put_tokens(kubectl, operator="operators-next-token", shop="next-token")
        accepts(kubectl, address, ca, "token-of-shop", "401")
        kubectl.run("annotate", KIND, "digits", "note=polled-again")

    assert seen.failures == []
    assert seen.answered > 50
    assert running(kubectl) == pods
    # Unknown while the operator has the former token and the server the next one, or the reverse.
    eventually(
        "the operator checks the contract with its next token",
        lambda: kubectl.condition("digits", "MetadataMatched")["status"],
        lambda status: status == "True",
        UPDATE_SECONDS,
    )
    assert kubectl.condition("digits", "Ready")["status"] == "True"
    assert kubectl.condition("digits", "Ready")["lastTransitionTime"] == since


def accepts(kubectl: Kubectl, address: str, ca: Path, token: str, status: str) -> None:
    """Wait until the server answers this status to a token."""
    eventually(
        f"{status} with {token}",
        lambda: curl(kubectl, address, ca, "--header", f"Authorization: Bearer {token}"),
        lambda found: found == status,
        UPDATE_SECONDS,
    )


def running(kubectl: Kubectl) -> dict[str, int]:
    """The restarts of every pod, by name."""
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in kubectl.items("pods", PODS)
    }
