"""The places of `moorage deploy --to`: their keys, URIs and manifests."""

import hashlib
import json

import pytest

from moorage_cli.manifests.deploying import content_of
from moorage_cli.manifests.stores import NO_CONFIG, store_of
from moorage_cli.printing.failures import WrongUsage
from moorage_runtime.fetch.decide import source

CONTENT = content_of({"b/weights": (3, "b" * 64), "a.onnx": (2, "a" * 64)})
PLACE = f"iris/{CONTENT.digest}"


@pytest.mark.parametrize(
    ("to", "account", "bucket", "folder"),
    [
        ("s3://models", "", "models", PLACE),
        ("s3://models/", "", "models", PLACE),
        ("s3://models/of/team/", "", "models", f"of/team/{PLACE}"),
        ("s3://models/a%20b%2Bc", "", "models", f"a b+c/{PLACE}"),
        ("gs://models/of/team", "", "models", f"of/team/{PLACE}"),
        ("azblob://account/models", "account", "models", PLACE),
        ("azblob://account/models/team", "account", "models", f"team/{PLACE}"),
    ],
)
def test_the_pods_look_for_the_key_that_is_uploaded(to, account, bucket, folder):
    store = store_of(to, "iris", CONTENT)

    assert (store.account, store.bucket, store.folder) == (account, bucket, folder)
    read = source.parse(store.uri)
    assert read.path == folder
    if account:
        assert (read.account, read.container) == (account, bucket)
    else:
        assert read.bucket == bucket


def test_the_server_of_a_bucket_is_that_of_the_pods():
    store = store_of("s3://models/t?endpoint=http://minio:9000/&region=eu-west-1", "iris", CONTENT)

    assert (store.endpoint, store.region) == ("http://minio:9000", "eu-west-1")
    read = source.parse(store.uri)
    assert (read.endpoint, read.region, read.path) == (
        "http://minio:9000", "eu-west-1", f"t/{PLACE}"
    )  # fmt: skip


@pytest.mark.parametrize("to", ["oci://r.example:5000", "oci://r.example:5000/team"])
def test_equal_files_are_one_artifact_by_its_digest(to):
    store = store_of(to, "iris", CONTENT)

    again = content_of(dict(sorted(CONTENT.files.items(), reverse=True)))
    assert store == store_of(to, "iris", again)
    read = source.parse(store.uri)
    assert (read.registry, read.repository) == (store.registry, store.repository)
    assert read.reference == f"sha256:{hashlib.sha256(store.manifest).hexdigest()}"
    manifest = json.loads(store.manifest)
    assert manifest["config"]["digest"] == f"sha256:{hashlib.sha256(NO_CONFIG).hexdigest()}"
    assert [
        (layer["annotations"]["org.opencontainers.image.title"], layer["size"], layer["digest"])
        for layer in manifest["layers"]
    ] == [("a.onnx", 2, f"sha256:{'a' * 64}"), ("b/weights", 3, f"sha256:{'b' * 64}")]


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("models", "must be one of s3://BUCKET[/FOLDER], gs://"),
        ("minio://models", "must be one of s3://BUCKET[/FOLDER], gs://"),
        ("gs://", "must be gs://BUCKET[/FOLDER]"),
        ("gs://models?region=x", "only endpoint may occur"),
        ("s3://", "must be s3://BUCKET[/FOLDER]"),
        ("s3://user:password@models", "must be s3://BUCKET[/FOLDER]"),
        ("s3://models#sha256=00", "must be s3://BUCKET[/FOLDER]"),
        ("s3://models?path=x", "only endpoint and region may occur"),
        ("s3://models?endpoint=minio", "an endpoint must be an address"),
        ("s3://models?endpoint=", "an endpoint must be an address"),
        ("azblob://account", "must be azblob://ACCOUNT/CONTAINER[/FOLDER]"),
        ("azblob://account/models?region=x", "only endpoint may occur"),
        ("oci://", "must be oci://REGISTRY[/PATH]"),
        ("oci://r.example/iris:1", "must be oci://REGISTRY[/PATH], without a tag"),
        ("oci://r.example/iris?path=x", "must be oci://REGISTRY[/PATH], without a tag"),
    ],
)
def test_an_invalid_place_is_refused_with_its_value(to, expected):
    with pytest.raises(WrongUsage) as caught:
        store_of(to, "iris", CONTENT)

    assert str(caught.value).startswith(f"--to: {to!r} is invalid")
    assert expected in str(caught.value)
