"""Azurite, with blobs from Azure's own client: downloads, verification, credentials, failures."""

import base64
import hashlib
import os

import pytest

from support.azure_server import azure_server
from support.cutting_proxy import cutting_proxy
from support.entra_server import TENANT, entra_server

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]

BIG = os.urandom(3_000_000)


def test_all_blobs_below_a_path_are_downloaded(azure, fetch):
    azure.put("models/iris/1/model.onnx", b"weights" * 1000)
    azure.put("models/iris/labels.txt", b"setosa")
    azure.put("models/iris-other/model.onnx", b"another")

    done = fetch("azblob://moorage/models/iris", azure.secret)

    assert done.status == 0, done.log
    assert done.files == {"1/model.onnx": b"weights" * 1000, "labels.txt": b"setosa"}


def test_one_blob_is_downloaded(azure, fetch):
    azure.put("models/single/model.onnx", b"one")

    done = fetch("azblob://moorage/models/single/model.onnx", azure.secret)

    assert (done.status, done.files) == (0, {"model.onnx": b"one"}), done.log


def test_a_listing_over_several_pages_is_complete(azure, fetch):
    azure.ask("many", container="models", folder="many", count=1003)

    done = fetch("azblob://moorage/models/many", azure.secret)

    assert done.status == 0, done.log
    assert done.files == {f"{index:04}.bin": b"%d" % index for index in range(1003)}


def test_a_name_with_special_characters_is_downloaded(azure, fetch):
    azure.put("models/odd/a b+c%dé&=?#'.bin", b"odd")

    by_folder = fetch("azblob://moorage/models/odd", azure.secret)
    by_name = fetch(
        "azblob://moorage/models/odd/a%20b%2Bc%25d%C3%A9%26%3D%3F%23'.bin", azure.secret
    )

    assert by_folder.files == {"a b+c%dé&=?#'.bin": b"odd"}, by_folder.log
    assert by_name.files == by_folder.files, by_name.log


def test_marks_of_folders_are_not_files(azure, fetch):
    azure.put("models/marked", b"", metadata={"hdi_isfolder": "true"})
    azure.put("models/marked/1", b"", metadata={"hdi_isfolder": "true"})
    azure.put("models/marked/1/model.onnx", b"weights")

    done = fetch("azblob://moorage/models/marked", azure.secret)

    assert done.files == {"1/model.onnx": b"weights"}, done.log


def test_a_blob_of_several_blocks_without_a_checksum_is_downloaded(azure, fetch):
    body = base64.b64encode(BIG).decode()
    azure.ask("blocks", container="models", name="blocks/model.onnx", body=body)

    done = fetch("azblob://moorage/models/blocks", azure.secret)

    assert done.files == {"model.onnx": BIG}, done.log


def test_an_interrupted_download_resumes(azure, fetch):
    azure.put("models/cut/model.onnx", BIG)
    with cutting_proxy(azure.port, 1_000_000, 1_000_000) as proxy:
        endpoint = f"http://127.0.0.1:{proxy.port}"
        secret = {**azure.secret, "AZURE_STORAGE_SERVICE_ENDPOINT": endpoint}

        done = fetch("azblob://moorage/models/cut", secret)

    assert done.files == {"model.onnx": BIG}, done.log
    assert not proxy.cuts
    assert len(BIG) < proxy.passed < len(BIG) + 300_000


def test_a_blob_that_changes_during_the_download_is_refused(azure, fetch):
    other = os.urandom(len(BIG))
    azure.put("models/changed/model.onnx", BIG)
    with cutting_proxy(azure.port, *[1_000_000] * 2 + [600] * 20) as proxy:
        endpoint = f"http://127.0.0.1:{proxy.port}"
        secret = {**azure.secret, "AZURE_STORAGE_SERVICE_ENDPOINT": endpoint}
        first = fetch.start("azblob://moorage/models/changed", secret)
        first.wait_log("retrying in")
        azure.put("models/changed/model.onnx", other)
        proxy.cuts.clear()

        first.wait_log("model.onnx changed during the download")
        assert first.process.wait(60) == 1

    done = fetch("azblob://moorage/models/changed", azure.secret)
    assert done.files == {"model.onnx": other}, done.log


def test_content_that_differs_from_its_checksum_is_detected(azure, fetch):
    digest = hashlib.sha256(b"sum").hexdigest()
    wrong = hashlib.sha256(b"another").hexdigest()
    azure.put("models/sum/model.onnx", b"sum")
    uri = "azblob://moorage/models/sum/model.onnx#sha256="

    assert fetch(uri + digest, azure.secret).status == 0
    done = fetch(uri + wrong, azure.secret)

    assert f"sha256:{wrong}" in done.message


@pytest.mark.parametrize(
    ("name", "permissions", "path"),
    [("", "rl", "signed"), ("signed/model.onnx", "r", "signed/model.onnx")],
    ids=["container", "one blob without the right to list"],
)
def test_a_shared_access_signature_is_used(azure, fetch, name, permissions, path):
    azure.put("models/signed/model.onnx", b"signed")
    words = {"container": "models", "name": name, "permissions": permissions, "minutes": 10}
    token = azure.ask("sas", **words)
    secret = {**azure.secret, "AZURE_STORAGE_KEY": "", "AZURE_STORAGE_SAS_TOKEN": token}

    done = fetch(f"azblob://moorage/models/{path}", secret)

    assert done.files == {"model.onnx": b"signed"}, done.log
    assert "sig=" not in done.log


@pytest.mark.parametrize("access", ["container", "blob"])
def test_a_public_blob_needs_no_credentials(azure, fetch, access):
    azure.ask("container", container=f"public-{access}", access=access)
    azure.put(f"public-{access}/iris/model.onnx", b"public")
    uri = f"azblob://moorage/public-{access}/iris/model.onnx?endpoint={azure.url}"

    done = fetch(uri)

    assert done.files == {"model.onnx": b"public"}, done.log


@pytest.mark.parametrize(
    ("path", "changes", "sentences"),
    [
        ("models/absent", {}, ["azblob://moorage/models/absent contains no blobs"]),
        ("models/absent/", {}, ["azblob://moorage/models/absent/ contains no files"]),
        ("no-such-container/iris", {}, ["container 'no-such-container' does not exist"]),
        (
            "models/iris",
            {"AZURE_STORAGE_KEY": "d3Jvbmc="},
            ["refuses the credentials", "AZURE_STORAGE_KEY", "'moorage'"],
        ),
        (
            "models/iris",
            {"AZURE_STORAGE_KEY": "not base64"},
            ["AZURE_STORAGE_KEY", "not valid base64"],
        ),
        (
            "models/iris",
            {"AZURE_STORAGE_SAS_TOKEN": "sig=1"},
            ["both AZURE_STORAGE_KEY and AZURE_STORAGE_SAS_TOKEN"],
        ),
        (
            "models/iris",
            {"AZURE_STORAGE_KEY": "", "AZURE_CLIENT_SECRET": "s", "AZURE_CLIENT_ID": "c"},
            ["AZURE_CLIENT_SECRET", "no key AZURE_TENANT_ID"],
        ),
        ("models/iris", {"AZURE_STORAGE_KEY": ""}, ["models/iris", "no credentials were sent"]),
        (
            "models/iris",
            {"AZURE_STORAGE_SERVICE_ENDPOINT": "azurite"},
            ["AZURE_STORAGE_SERVICE_ENDPOINT", "must be an address such as"],
        ),
    ],
    ids=[
        "path", "folder", "container", "key", "not a key", "two credentials",
        "half an application", "no credentials", "endpoint",
    ],
)  # fmt: skip
def test_an_error_of_the_store_is_one_clear_message(azure, fetch, path, changes, sentences):
    done = fetch(f"azblob://moorage/{path}", {**azure.secret, **changes})

    assert done.status == 1
    assert all(sentence in done.message for sentence in sentences), done.message
    assert azure.key not in done.log + done.message
    assert "Traceback" not in done.log
    assert not (done.volume / "model").exists()


@pytest.mark.parametrize(
    ("permissions", "minutes", "sentence"),
    [("rl", -10, "AZURE_STORAGE_SAS_TOKEN"), ("w", 10, "permits reading")],
    ids=["expired", "without the right to read"],
)
def test_an_unusable_signature_is_reported(azure, fetch, permissions, minutes, sentence):
    words = {"container": "models", "name": "", "permissions": permissions, "minutes": minutes}
    token = azure.ask("sas", **words)
    secret = {**azure.secret, "AZURE_STORAGE_KEY": "", "AZURE_STORAGE_SAS_TOKEN": token}

    done = fetch("azblob://moorage/models/iris", secret)

    assert sentence in done.message
    assert "sig=" not in done.log + done.message


@pytest.fixture(scope="module")
def secured(certificate, tmp_path_factory):
    with azure_server(tmp_path_factory.mktemp("secured"), certificate=certificate) as server:
        server.put("models/token/model.onnx", b"by token")
        yield server


@pytest.fixture(params=["an application", "a pod"])
def by_identity(request, secured, fetch, trusted, tmp_path):
    """Fetch as an application or as a pod with this proof of its identity."""

    def run(entra, proof: str):
        identity = {"AZURE_CLIENT_ID": "the client", "AZURE_TENANT_ID": TENANT}
        identity |= {"AZURE_AUTHORITY_HOST": f"{entra.url}/"}
        secret = {**trusted, "AZURE_STORAGE_SERVICE_ENDPOINT": secured.url}
        if request.param == "a pod":
            (tmp_path / "token").write_text(f"{proof}\n")
            fetch.variables = {**identity, "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "token")}
        else:
            secret |= {**identity, "AZURE_CLIENT_SECRET": proof}
        return fetch("azblob://moorage/models/token", secret)

    return run


def test_an_identity_is_exchanged_for_a_token(by_identity):
    with entra_server("its-own-proof".__eq__) as entra:
        done = by_identity(entra, "its-own-proof")

    assert done.files == {"model.onnx": b"by token"}, done.log
    assert [form["client_id"] for form in entra.forms] == ["the client"]
    assert "its-own-proof" not in done.log


def test_an_identity_that_is_refused_is_reported(by_identity):
    with entra_server("its-own-proof".__eq__) as entra:
        done = by_identity(entra, "a-strangers-proof")

    assert done.status == 1
    for words in ("the client", "AADSTS7000215"):
        assert words in done.message
    assert "a-strangers-proof" not in done.log + done.message


def test_a_missing_token_of_a_pod_is_reported(secured, fetch, trusted):
    fetch.variables = {
        "AZURE_CLIENT_ID": "c",
        "AZURE_TENANT_ID": TENANT,
        "AZURE_FEDERATED_TOKEN_FILE": "/absent",
    }

    done = fetch(f"azblob://moorage/models/token?endpoint={secured.url}", trusted)

    assert "the token of the pod's Azure identity cannot be read" in done.message
