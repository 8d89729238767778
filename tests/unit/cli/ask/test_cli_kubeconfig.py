"""Kubeconfigs that are not usable: each is refused with the field, and never used without it."""

import os
import stat
from pathlib import Path

import pytest

from moorage_cli.ask.api_failures import NoCluster
from moorage_cli.ask.cluster import Cluster, TokenAccount
from moorage_cli.ask.kubeconfig import load_kubeconfig
from moorage_cli.printing.failures import Failure

SERVER = 'server: "http://127.0.0.1:1"'
TLS = 'server: "https://127.0.0.1:1"'
EXEC = "apiVersion: client.authentication.k8s.io/v1"


def config(cluster: str = SERVER, user: str = "", context: str = "cluster: c, user: u") -> str:
    return (
        f"clusters: [{{name: c, cluster: {{{cluster}}}}}]\n"
        f"users: [{{name: u, user: {{{user}}}}}]\n"
        f"contexts: [{{name: x, context: {{{context}}}}}]\n"
        "current-context: x\n"
    )


# The text of a file, and the reason.
UNUSABLE = {
    "": "it is empty",
    "null": "it is empty",
    "[": "is not valid YAML",
    "a: !!python/object:os.x {}": "is not valid YAML",
    "[]": "it must be an object with clusters, users and contexts",
    "text": "it must be an object",
    "{}": "it has no contexts: add the cluster to it",
    "contexts: [{name: x, context: {}}]": "current-context is not set: set --context, which must",
    "contexts: 3": "contexts must be a list",
    "contexts: [1]": "contexts[0].name must be a string",
    "contexts: [{name: x}]": "contexts[x].context is required",
    "current-context: 3": "current-context must be a string",
    "current-context: y": "current-context: 'y' does not exist: there are none",
    config(context="cluster: d, user: u"): (
        "contexts[x].context.cluster: 'd' does not exist: must be one of c"
    ),
    # without this check, requests would be sent without credentials
    config(context="cluster: c, user: v"): (
        "contexts[x].context.user: 'v' does not exist: must be one of u"
    ),
    config(context="cluster: c, namespace: 3"): "contexts[x].context.namespace must be a string",
    config(
        context='cluster: c, namespace: ".."'
    ): "contexts[x].context.namespace: '..' is invalid",
    config(""): "clusters[c].cluster.server: '' is invalid: must be http://HOST:PORT or https://",
    config("server: 3"): "clusters[c].cluster.server must be a string: put it in quotes",
    config('server: "ftp://a"'): "clusters[c].cluster.server: 'ftp://a' is invalid",
    config('server: "not a url"'): "clusters[c].cluster.server: 'not a url' is invalid",
    config('server: "http://a:99999"'): "clusters[c].cluster.server: 'http://a:99999' is invalid",
    config('server: "http://["'): "clusters[c].cluster.server: 'http://[' is invalid",
    config(f'{TLS}, insecure-skip-tls-verify: "false"'): (
        "clusters[c].cluster.insecure-skip-tls-verify must be true or false, without quotes"
    ),
    config(f"{TLS}, insecure-skip-tls-verify: true, certificate-authority: ca.crt"): (
        "clusters[c].cluster.insecure-skip-tls-verify is true, and clusters[c].cluster."
        "certificate-authority is set: remove one"
    ),
    config(f"{SERVER}, proxy-url: nonsense"): "clusters[c].cluster.proxy-url: 'nonsense' is inv",
    config(f'{TLS}, certificate-authority-data: "!"'): (
        "clusters[c].cluster.certificate-authority-data is not valid base64"
    ),
    config(f"{TLS}, certificate-authority-data: aGVsbG8="): (
        "clusters[c].cluster.certificate-authority has no valid certificate in PEM"
    ),
    config(f"{TLS}, certificate-authority: /missing"): "File does not exist: /missing",
    config(TLS, "client-certificate-data: aGVsbG8=, client-key-data: aGVsbG8="): (
        "users[u].user: client-certificate and client-key are not a certificate and its"
    ),
    config(user="token: 3"): "users[u].user.token must be a string",
    config(user='token: "secret\\nb"'): "users[u].user.token has a character that no token has",
    config(user="tokenFile: /missing"): "/missing: no such file or directory",
    # without this check, requests would be sent with the rights of the user that impersonates
    config(user="token: t, as: viewer"): "users[u].user.as: impersonation is not supported: use",
    config(user="token: t, as-groups: [g]"): "users[u].user.as-groups: impersonation is not",
    config(user="username: 3, password: x"): "users[u].user.username must be a string",
    config(user="exec: 3"): "users[u].user.exec must be an object",
    config(user="exec: {}"): "users[u].user.exec.apiVersion is required",
    config(user=f"exec: {{{EXEC}, command: /missing}}"): (
        "users[u].user.exec: /missing gave no credentials: [Errno 2] No such file"
    ),
    config(user=f'exec: {{{EXEC}, command: "false"}}'): "false gave no credentials: process retu",
    config(user=f'exec: {{{EXEC}, command: "true"}}'): "true gave no credentials: failed to deco",
    config(user=f"exec: {{{EXEC}, command: no-such-plugin, installHint: Run setup}}"): (
        "No such file or directory: 'no-such-plugin'; Run setup"
    ),
    config(user="auth-provider: {name: oidc, config: {secret: 3}}"): "Expected key id-token",
    # the package ignores these, and would send requests without credentials
    config(user="auth-provider: {name: azure, config: {}}"): (
        "users[u].user.auth-provider gave no credentials: use exec with the credential plugin"
    ),
    # without a CA, the package believes any server where to send the refresh token
    config(user="auth-provider: {name: oidc, config: {id-token: a.b.c, refresh-token: secret}}"): (
        "users[u].user.auth-provider.config.idp-certificate-authority is required, to verify"
    ),
    config(user="auth-provider: {name: oidc, config: {id-token: secret}}"): (
        "users[u].user.auth-provider gave no credentials"
    ),
}


@pytest.mark.parametrize("text", UNUSABLE)
def test_an_unusable_kubeconfig_is_refused_with_the_reason(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(Failure) as refused:
        Cluster(str(path))

    message = str(refused.value)
    assert message.startswith(f"--kubeconfig: {path} is not a usable kubeconfig: ")
    assert UNUSABLE[text] in message
    assert "secret" not in message


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, reason in (
        (tmp_path / "missing", "no such file"),
        (tmp_path, "is a directory"),
        (binary, "the text is not UTF-8"),
        (loop, "too many levels of symbolic links"),
    ):
        with pytest.raises(Failure, match=f"is not a usable kubeconfig: .*{reason}"):
            Cluster(str(path))


def test_the_place_of_a_cluster_is_its_context_and_address(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(config())
    loaded = load_kubeconfig(str(path), "")

    assert Cluster(str(path)).place == f"{loaded.context}, {loaded.configuration.host}"
    assert loaded.context
    account = TokenAccount("https://10.96.0.1", "", "token")
    assert Cluster(account=account).place == "https://10.96.0.1"


def test_a_token_of_a_file_may_end_with_a_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    path = tmp_path / "kubeconfig"
    path.write_text(config(user="tokenFile: token"))

    configuration = load_kubeconfig(str(path), "").configuration
    headers = [configuration.auth_settings()["BearerToken"]["value"] for _ in range(2)]

    assert headers == ["Bearer t", "Bearer t"]


def test_a_token_of_a_file_is_read_again_and_goes_before_that_of_the_kubeconfig(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    path = tmp_path / "kubeconfig"
    path.write_text(config(user="token: static, tokenFile: token"))

    def header() -> str:
        return configuration.auth_settings()["BearerToken"]["value"]

    configuration = load_kubeconfig(str(path), "").configuration
    headers = [header()]
    token.write_text("second\n")
    headers.append(header())
    token.unlink()
    headers.append(header())

    assert headers == ["Bearer first", "Bearer second", "Bearer second"]


def test_a_token_of_a_file_with_a_line_break_inside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\nb")
    path = tmp_path / "kubeconfig"
    path.write_text(config(user="tokenFile: token"))

    with pytest.raises(Failure, match="the token of tokenFile has a character") as refused:
        Cluster(str(path))

    assert "secret" not in str(refused.value)


def test_a_credential_plugin_that_answers_is_used(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        '#!/bin/sh\necho \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": '
        '"ExecCredential", "status": {"token": "t"}}\'\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    path = tmp_path / "kubeconfig"
    path.write_text(config(user=f"exec: {{{EXEC}, command: {plugin}}}"))

    assert Cluster(str(path)).namespace == "default"


def test_a_plugin_that_does_not_renew_the_token_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!/bin/sh\n[ -e {tmp_path}/used ] && echo 'log in again' >&2 && exit 1\n"
        f"touch {tmp_path}/used\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        '"status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}}\'\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    path = tmp_path / "kubeconfig"
    path.write_text(config(user=f"exec: {{{EXEC}, command: {plugin}}}"))

    configuration = load_kubeconfig(str(path), "").configuration
    headers = [configuration.auth_settings()["BearerToken"]["value"] for _ in range(2)]

    assert headers == ["Bearer t", "Bearer t"]
    assert capsys.readouterr().err == (
        "moorage: users[u].user.exec does not renew the token: process returned 1. log in again\n"
    )


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes kubeconfigs and sets KUBECONFIG to all of them."""

    def write(*texts: str) -> None:
        paths = [tmp_path / str(at) for at in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))

    return write


def test_the_first_current_context_of_several_files_counts_as_for_kubectl(files) -> None:
    second = (
        config().replace("name: x", "name: y").replace("current-context: x", "current-context: y")
    )
    files("", config(context="cluster: c, namespace: first"), second)

    assert Cluster().namespace == "first"


def test_without_a_kubeconfig_the_message_names_where_one_is_expected(
    files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files("")
    with pytest.raises(NoCluster, match=r"no kubeconfig exists at .*, or it is empty"):
        Cluster()

    monkeypatch.setenv("KUBECONFIG", "/missing")
    with pytest.raises(NoCluster, match="at /missing"):
        Cluster()


def test_a_malformed_default_kubeconfig_is_not_replaced_by_the_account_of_the_pod(
    files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubernetes.config.load_incluster_config", lambda **_: None)
    files("")
    assert Cluster().namespace == "default"
    files("contexts: [")

    with pytest.raises(Failure, match="is not valid YAML"):
        Cluster()


@pytest.mark.parametrize(
    ("text", "namespace"), [("models\n", "models"), ("", "default"), ("a/b", "default")]
)
def test_in_a_pod_its_namespace_is_the_default_as_for_kubectl(
    text: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "namespace").write_text(text)
    monkeypatch.setattr("kubernetes.config.load_incluster_config", lambda **_: None)
    monkeypatch.setattr("moorage_cli.ask.cluster.OWN_NAMESPACE", tmp_path / "namespace")
    monkeypatch.setenv("KUBECONFIG", "/missing")

    assert Cluster().namespace == namespace
