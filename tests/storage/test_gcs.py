"""An emulator of Google Cloud Storage: one object, a folder, and what is not there."""

import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def bucket(gcs):
    gcs.put("iris/1/model.onnx", b"weights" * 1000)
    gcs.put("iris/a b+%.txt", b"odd")
    gcs.put("iris-other/model.onnx", b"other")


def test_all_objects_below_a_path(gcs, bucket, fetch):
    done = fetch(f"gs://models/iris?endpoint={gcs.url}")

    assert done.files == {"1/model.onnx": b"weights" * 1000, "a b+%.txt": b"odd"}, done.log


def test_one_object(gcs, bucket, fetch):
    done = fetch(f"gs://models/iris/1/model.onnx?endpoint={gcs.url}")

    assert done.files == {"model.onnx": b"weights" * 1000}, done.log


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("models/absent", "gs://models/absent holds no files"), ("absent/a", "does not exist")],
)
def test_what_is_not_there_is_named(gcs, bucket, fetch, path, sentence):
    done = fetch(f"gs://{path}?endpoint={gcs.url}")

    assert done.status == 1
    assert sentence in done.message


def test_a_key_that_is_none_is_told_of(gcs, fetch):
    secret = {"GOOGLE_APPLICATION_CREDENTIALS_JSON": '{"private": "very-secret"}'}

    done = fetch(f"gs://models/iris?endpoint={gcs.url}", secret)

    assert "GOOGLE_APPLICATION_CREDENTIALS_JSON of the Secret is no Google key" in done.message
    assert "very-secret" not in done.log
