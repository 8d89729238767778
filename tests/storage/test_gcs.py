"""An emulator of Google Cloud Storage: one object, a folder, and missing objects."""

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
