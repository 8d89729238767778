"""A real S3 gateway: downloads, verification, and the message of each failure."""

import hashlib
import os

import pytest

from support.cutting_proxy import cutting_proxy
from support.sts_server import sts_server

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]

BIG = os.urandom(3_000_000)


def test_all_objects_below_a_path_are_downloaded(s3, fetch):
    s3.put("models/iris/1/model.onnx", b"weights" * 1000)
    s3.put("models/iris/labels.txt", b"setosa")
    s3.put("models/iris-other/model.onnx", b"another")

    done = fetch("s3://models/iris", s3.secret)

    assert done.status == 0, done.log
    assert done.files == {"1/model.onnx": b"weights" * 1000, "labels.txt": b"setosa"}
    assert sorted(path.name for path in done.volume.iterdir()) == ["fetched.json", "model"]


def test_one_object_is_downloaded(s3, fetch):
    s3.put("models/single/model.onnx", b"one")

    done = fetch("s3://models/single/model.onnx", s3.secret)

    assert (done.status, done.files) == (0, {"model.onnx": b"one"})


def test_a_listing_over_several_pages_is_complete(s3, fetch, tmp_path):
    for index in range(1003):
        folder = s3.folder / "objects" / "models" / "many"
        folder.mkdir(exist_ok=True)
        (folder / f"{index:04}.bin").write_bytes(b"%d" % index)

    done = fetch("s3://models/many", s3.secret)

    assert done.status == 0, done.log
    assert done.files == {f"{index:04}.bin": b"%d" % index for index in range(1003)}


def test_a_key_with_special_characters_is_downloaded(s3, fetch):
    s3.put("models/odd/a%20b%2Bc%25d%C3%A9%26%3D%3F%23.bin", b"odd")

    by_folder = fetch("s3://models/odd", s3.secret)
    assert by_folder.files == {"a b+c%dé&=?#.bin": b"odd"}, by_folder.log


def test_a_key_with_special_characters_is_written_percent_encoded(s3, fetch):
    s3.put("models/odd2/a%20b%3F.bin", b"odd")

    done = fetch("s3://models/odd2/a%20b%3F.bin", s3.secret)

    assert done.files == {"a b?.bin": b"odd"}, done.log


def test_a_downloaded_model_is_not_downloaded_again(s3, fetch):
    s3.put("models/again/model.onnx", b"first")
    fetch("s3://models/again", s3.secret)
    s3.put("models/again/model.onnx", b"second")

    done = fetch("s3://models/again", s3.secret)

    assert done.files == {"model.onnx": b"first"}
    assert "already" in done.log


def test_an_interrupted_download_resumes(s3, fetch):
    s3.put("models/cut/model.onnx", BIG)
    with cutting_proxy(s3.port, 1_000_000, 1_000_000) as proxy:
        secret = {**s3.secret, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}

        done = fetch("s3://models/cut", secret)

    assert done.files == {"model.onnx": BIG}, done.log
    assert not proxy.cuts
    assert len(BIG) < proxy.passed < len(BIG) + 300_000


def test_a_restarted_container_resumes(s3, fetch):
    s3.put("models/next/model.onnx", BIG)
    with cutting_proxy(s3.port, *[1_000_000] * 2 + [600] * 20) as proxy:
        secret = {**s3.secret, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        first = fetch.start("s3://models/next", secret)
        first.wait_log("retrying in")
        first.process.kill()
        first.process.wait(10)
        before = proxy.passed
        proxy.cuts.clear()

        done = fetch("s3://models/next", secret)

    assert done.files == {"model.onnx": BIG}, done.log
    assert before > 900_000
    assert proxy.passed - before < len(BIG) - before + 300_000


def test_a_changed_object_is_downloaded_again(s3, fetch):
    other = os.urandom(len(BIG))
    s3.put("models/changed/model.onnx", BIG)
    with cutting_proxy(s3.port, *[1_000_000] * 2 + [600] * 20) as proxy:
        secret = {**s3.secret, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        first = fetch.start("s3://models/changed", secret)
        first.wait_log("retrying in")
        first.process.kill()
        first.process.wait(10)
    s3.put("models/changed/model.onnx", other)

    done = fetch("s3://models/changed", s3.secret)

    assert done.files == {"model.onnx": other}, done.log


def test_corrupt_content_in_the_store_is_detected(s3, fetch):
    s3.put("models/rot/model.onnx", b"good weights")
    (s3.folder / "objects" / "models" / "rot" / "model.onnx").write_bytes(b"evil weights")

    done = fetch("s3://models/rot", s3.secret)

    assert done.status == 1
    expected = hashlib.md5(b"good weights").hexdigest()
    assert f"md5:{expected}" in done.message
    assert done.files == {}


def test_a_declared_checksum_requires_one_object(s3, fetch):
    s3.put("models/sum/model.onnx", b"sum")
    right, wrong = hashlib.sha256(b"sum").hexdigest(), hashlib.sha256(b"x").hexdigest()

    assert fetch(f"s3://models/sum/model.onnx#sha256={right}", s3.secret).status == 0
    done = fetch(f"s3://models/sum/model.onnx#sha256={wrong}", s3.secret)

    assert f"sha256:{wrong}" in done.message


@pytest.mark.parametrize(
    ("uri", "changes", "sentences"),
    [
        (
            "s3://models/absent",
            {},
            ["s3://models/absent contains no objects"],
        ),
        ("s3://no-such-bucket/iris", {}, ["bucket 'no-such-bucket' does not exist at 127.0.0.1"]),
        (
            "s3://models/iris",
            {"AWS_ACCESS_KEY_ID": "another"},
            ["does not know the access key", "AWS_ACCESS_KEY_ID"],
        ),
        (
            "s3://models/iris",
            {"AWS_SECRET_ACCESS_KEY": "wrong"},
            ["refuses the signature", "AWS_SECRET_ACCESS_KEY"],
        ),
        (
            "s3://models/iris",
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            ["access to s3://models/iris is denied", "no credentials were sent"],
        ),
        (
            "s3://models/iris",
            {"AWS_SECRET_ACCESS_KEY": ""},
            ["the Secret has no key AWS_SECRET_ACCESS_KEY"],
        ),
        ("s3://models/iris?region=eu-west-1", {}, ["us-east-1"]),
        (
            "s3://models/iris",
            {"AWS_ENDPOINT_URL": "s3.example"},
            ["endpoint", "must be an address such as https://"],
        ),
    ],
    ids=[
        "path", "bucket", "access key", "secret key", "no credentials", "half a pair", "region",
        "endpoint",
    ],
)  # fmt: skip
def test_an_error_of_the_store_is_one_clear_message(s3, fetch, uri, changes, sentences):
    done = fetch(uri, {**s3.secret, **changes})

    assert done.status == 1
    assert all(sentence in done.message for sentence in sentences), done.message
    assert s3.key not in done.log + done.message
    assert "Traceback" not in done.log
    assert not (done.volume / "model").exists()


def test_an_unreachable_server_is_reported(s3, fetch):
    done = fetch.start("s3://models/iris", {**s3.secret, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})

    done.wait_log("127.0.0.1:9 cannot be reached")
    done.process.terminate()
    assert done.process.wait(10) == 143


@pytest.mark.parametrize(
    ("token", "ending"),
    [
        ("a pod's own\n", ""),
        ("a stranger's", "STS refuses keys for the role arn:aws:iam::1:role/m"),
    ],
    ids=["known", "unknown"],
)
def test_the_role_of_a_pod_is_exchanged_for_keys(s3, fetch, tmp_path, token, ending):
    s3.put("models/role/model.onnx", b"role")
    file = tmp_path / "token"
    file.write_text(token)
    with sts_server(s3.access, s3.key, "a pod's own".__eq__) as sts:
        fetch.variables = {
            "AWS_ROLE_ARN": "arn:aws:iam::1:role/m",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(file),
            "AWS_ENDPOINT_URL_STS": sts.url,
            "AWS_ENDPOINT_URL_S3": s3.url,
            "AWS_REGION": "us-east-1",
        }

        done = fetch("s3://models/role")

    assert sts.roles[0] == "arn:aws:iam::1:role/m"
    assert done.files == ({} if ending else {"model.onnx": b"role"}), done.log
    assert ending in done.message
    assert s3.key not in done.log
    assert token.strip() not in done.log
