"""An emulator of Google Cloud Storage: one object, a folder, and missing objects."""

import gzip

import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def bucket(gcs):
    gcs.put("iris/1/model.onnx", b"weights" * 1000)
    gcs.put("iris/a b+%.txt", b"odd")
    gcs.put("iris-other/model.onnx", b"other")


def test_all_objects_below_a_path_are_downloaded(gcs, bucket, fetch):
    done = fetch(f"gs://models/iris?endpoint={gcs.url}")

    assert done.files == {"1/model.onnx": b"weights" * 1000, "a b+%.txt": b"odd"}, done.log


def test_one_object_is_downloaded(gcs, bucket, fetch):
    done = fetch(f"gs://models/iris/1/model.onnx?endpoint={gcs.url}")

    assert done.files == {"model.onnx": b"weights" * 1000}, done.log


def test_an_object_that_is_stored_compressed_is_decompressed(gcs, bucket, fetch):
    gcs.put_gzip("zipped/config.json", gzip.compress(b"{}"))
    gcs.put_gzip("zipped/1/vocab.txt", gzip.compress(b"words" * 100_000))
    gcs.put("zipped/data.gz", data := gzip.compress(b"data"))

    done = fetch(f"gs://models/zipped?endpoint={gcs.url}")

    expected = {"config.json": b"{}", "1/vocab.txt": b"words" * 100_000}
    assert done.files == {**expected, "data.gz": data}, done.log


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"plain", "config.json is damaged, or is not a gzip file: Not a gzipped file"),
        (gzip.compress(b"{}")[:-1], "config.json is damaged, or is not a gzip file: Compressed"),
        (gzip.compress(bytes(3_000_000)), "config.json contains more than"),
    ],
    ids=["plain", "cut off", "bomb"],
)
def test_a_compressed_object_that_is_invalid_is_refused(gcs, bucket, fetch, body, sentence):
    gcs.put_gzip("invalid/config.json", body)

    done = fetch(f"gs://models/invalid?endpoint={gcs.url}", {}, "--size-limit", "1Mi")

    assert done.status == 1
    assert sentence in done.message


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("models/absent", "gs://models/absent contains no files"), ("absent/a", "does not exist")],
)
def test_a_missing_object_is_reported(gcs, bucket, fetch, path, sentence):
    done = fetch(f"gs://{path}?endpoint={gcs.url}")

    assert done.status == 1
    assert sentence in done.message


def test_an_invalid_key_is_reported(gcs, fetch):
    secret = {"GOOGLE_APPLICATION_CREDENTIALS_JSON": '{"private": "very-secret"}'}

    done = fetch(f"gs://models/iris?endpoint={gcs.url}", secret)

    assert "GOOGLE_APPLICATION_CREDENTIALS_JSON of the Secret is not a Google key" in done.message
    assert "very-secret" not in done.log
