"""The certificate of both ports, and its replacement while the server runs."""

import asyncio
import pathlib
import shutil
import ssl
import subprocess

import pytest

from moorage_runtime.frontends.credentials import Certificate
from moorage_runtime.frontends.grpc.grpcio_server import GrpcioServer
from moorage_runtime.values.errors import InvalidConfig

NEW = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
IN_USE = "; the previous certificate stays in use"


class Vanishing(pathlib.PosixPath):
    """A file that is removed as soon as it is read."""

    def read_bytes(self) -> bytes:
        data = super().read_bytes()
        self.unlink()
        return data


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> pathlib.Path:
    """Certificates with their keys: "a", "b", and "encrypted", whose key has a passphrase."""
    folder = tmp_path_factory.mktemp("pairs")
    for name, protection in [
        ("a", ["-nodes"]),
        ("b", ["-nodes"]),
        ("encrypted", ["-passout", "pass:secret"]),
    ]:
        files = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"]
        subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost"]
        subprocess.run([*NEW, *protection, *subject, *files], check=True, capture_output=True)
    return folder


@pytest.fixture
def files(pairs, tmp_path) -> pathlib.Path:
    """A mounted Secret with the certificate "a"."""
    put(pairs, tmp_path, "a", "a")
    return tmp_path


def put(pairs: pathlib.Path, files: pathlib.Path, certificate: str, key: str) -> None:
    """Replace both files."""
    shutil.copy(pairs / f"{certificate}.crt", files / "tls.crt")
    shutil.copy(pairs / f"{key}.key", files / "tls.key")


def read(files: pathlib.Path) -> Certificate:
    return Certificate(files / "tls.crt", files / "tls.key")


def shake_hands(server: ssl.SSLContext, pairs: pathlib.Path, *offered: str) -> tuple[str, str]:
    """The name in the server's certificate, and the protocol that both sides chose."""
    client = ssl.create_default_context()
    for name in ("a", "b"):
        client.load_verify_locations(pairs / f"{name}.crt")
    client.set_alpn_protocols(offered)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(down, up, server_hostname="localhost")
    answering = server.wrap_bio(up, down, server_side=True)
    waiting = [asking, answering]
    for _ in range(8):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    assert not waiting
    return common_name(asking.getpeercert()), asking.selected_alpn_protocol() or ""


def common_name(certificate: dict) -> str:
    ((_, name),) = certificate["subject"][0]
    return name


def test_http2_is_offered_only_for_grpc(files, pairs):
    certificate = read(files)

    assert shake_hands(certificate.context, pairs, "h2", "http/1.1") == ("a", "")
    assert shake_hands(certificate.http2_context, pairs, "h2", "http/1.1") == ("a", "h2")


def test_old_versions_of_tls_are_refused_and_clients_need_no_certificate(files):
    certificate = read(files)

    for context in (certificate.context, certificate.http2_context):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.verify_mode == ssl.CERT_NONE


def test_a_changed_certificate_is_used_for_new_connections(files, pairs, caplog):
    caplog.set_level("INFO")
    certificate = read(files)

    put(pairs, files, "b", "b")
    certificate.refresh()
    certificate.refresh()

    assert shake_hands(certificate.context, pairs) == ("b", "")
    assert shake_hands(certificate.http2_context, pairs, "h2") == ("b", "h2")
    assert caplog.messages == ["reloaded the changed certificate"]


@pytest.mark.parametrize(
    ("certificate", "key", "reason"),
    [
        ("b", "a", "the certificate and its key are invalid: KEY_VALUES_MISMATCH"),
        ("b", None, "the TLS file '{folder}/tls.key' cannot be read: No such file or directory"),
        (
            "encrypted",
            "encrypted",
            "the TLS key is encrypted: must have no passphrase",
        ),
    ],
)
def test_an_invalid_certificate_is_refused_at_the_start_and_ignored_later(
    files, pairs, caplog, certificate, key, reason
):
    reason = reason.format(folder=files)
    used = read(files)
    put(pairs, files, certificate, key or "a")
    if key is None:
        (files / "tls.key").unlink()

    with pytest.raises(InvalidConfig) as caught:
        read(files)
    assert caught.value.message == reason
    used.refresh()
    assert caplog.messages == [f"{caught.value.message}{IN_USE}"]
    assert shake_hands(used.context, pairs) == ("a", "")

    caplog.clear()
    put(pairs, files, "a", "a")
    used.refresh()
    assert caplog.messages == []
    put(pairs, files, "b", "b")
    used.refresh()
    assert shake_hands(used.context, pairs) == ("b", "")


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_a_file_that_is_not_pem_is_refused(files, name):
    (files / name).write_text("not PEM")

    with pytest.raises(InvalidConfig) as caught:
        read(files)

    assert caught.value.message == (
        "the certificate and its key are invalid: one of the two files is not PEM"
    )


def test_a_file_that_vanishes_while_it_is_read_is_refused(files):
    with pytest.raises(InvalidConfig) as caught:
        Certificate(files / "tls.crt", Vanishing(files / "tls.key"))

    assert caught.value.message == "a TLS file cannot be read: No such file or directory"


async def test_a_grpcio_server_uses_a_changed_certificate_for_new_connections(files, pairs):
    certificate = read(files)
    server = GrpcioServer(
        [], "localhost", 0, tls=certificate.grpcio_credentials(), max_message_bytes=1000
    )
    port = await server.start()
    client = ssl.create_default_context()
    for name in ("a", "b"):
        client.load_verify_locations(pairs / f"{name}.crt")
    client.set_alpn_protocols(["h2"])

    async def seen() -> str:
        _, writer = await asyncio.open_connection("localhost", port, ssl=client)
        writer.close()
        return common_name(writer.get_extra_info("peercert"))

    assert await seen() == "a"
    put(pairs, files, "b", "b")
    certificate.refresh()
    assert await seen() == "b"
    await server.stop(0)
