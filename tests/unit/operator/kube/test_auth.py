import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_operator.kube import auth


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    path = folder / "config"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def find(path: Path) -> auth.Access:
    return auth.find({"KUBECONFIG": str(path)})


def test_certificates_come_from_data_or_from_files_next_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_text("KEY")
    user = {
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
        "client-key": "tls.key",
    }

    access = find(kubeconfig(tmp_path, user))

    assert (access.server, access.certificate, access.key) == ("https://host:6443", "CERT", "KEY")


def test_a_token_file_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    access = find(kubeconfig(tmp_path, {"tokenFile": "token"}))

    assert access.token_path == tmp_path / "token"


def test_the_first_of_several_files_takes_precedence(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    paths = [kubeconfig(first, {"token": "one"}), kubeconfig(second, {"token": "two"})]

    access = auth.find({"KUBECONFIG": ":".join(map(str, paths))})

    assert access.token == "one"


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"exec": {"command": "aws"}}, "'exec'"),
        ({"auth-provider": {}}, "'auth-provider'"),
        ({"client-key-data": "!"}, "client-key"),
        ({"client-certificate": "absent.pem"}, "client-certificate"),
    ],
)
def test_an_unsupported_kubeconfig_is_rejected(
    tmp_path: Path, user: dict[str, Any], said: str
) -> None:
    with pytest.raises(auth.AccessError, match=said):
        find(kubeconfig(tmp_path, user))


@pytest.mark.parametrize("text", ["", "[]", "a: [", "{}"])
def test_a_file_that_is_not_a_kubeconfig_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(auth.AccessError, match="config"):
        find(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(auth.AccessError, match="absent"):
        find(tmp_path / "absent")


def test_without_a_kubeconfig_the_service_account_is_used(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "token").write_text("t")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}

    access = auth.find(environ, service_account=tmp_path)

    assert access.server == "https://[fd00::1]:6443"
    assert (access.ca, access.token_path) == ("CA", tmp_path / "token")


def test_a_pod_without_a_token_is_reported(tmp_path: Path) -> None:
    with pytest.raises(auth.AccessError, match="automountServiceAccountToken"):
        auth.find({"KUBERNETES_SERVICE_HOST": "h"}, service_account=tmp_path)


def test_a_missing_configuration_is_reported_without_a_default() -> None:
    with pytest.raises(auth.AccessError, match="set KUBECONFIG"):
        auth.find({"HOME": "/root"})


def test_a_certificate_that_is_not_pem_is_rejected() -> None:
    with pytest.raises(auth.AccessError, match="cannot be used"):
        auth.ssl_context(auth.Access("https://h", certificate="x", key="y"))


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    path, now = tmp_path / "token", [0.0]
    path.write_text("one\n")
    token = auth.Token(auth.Access("https://h", token_path=path), clock=lambda: now[0])
    assert token.current() == "one"
    path.write_text("two\n")

    now[0] = 59
    assert token.current() == "one"
    now[0] = 61
    assert token.current() == "two"


def test_an_empty_token_file_is_not_a_token(tmp_path: Path) -> None:
    path, now = tmp_path / "token", [0.0]
    path.write_text("\n")
    token = auth.Token(auth.Access("https://h", token_path=path), clock=lambda: now[0])

    with pytest.raises(OSError, match="token is empty"):
        token.current()

    path.write_text("one\n")
    assert token.current() == "one"
