"""An object of unknown size is downloaded whole."""

from http import HTTPStatus

import pytest

from moorage_runtime.fetch.fetching import fetch
from support.canned_server import answering, http_answer

SECRETS = {
    "s3://models/model.onnx": {
        "MOORAGE_CREDENTIAL_AWS_ACCESS_KEY_ID": "id",
        "MOORAGE_CREDENTIAL_AWS_SECRET_ACCESS_KEY": "key",
    },
    "azblob://acct/models/model.onnx": {"MOORAGE_CREDENTIAL_AZURE_STORAGE_SAS_TOKEN": "sig=a"},
}


@pytest.mark.parametrize("uri", SECRETS)
def test_an_object_whose_head_has_no_length_is_not_taken_for_an_empty_one(tmp_path, uri):
    refusal = http_answer(HTTPStatus.FORBIDDEN, b"")
    head = b'HTTP/1.1 200 OK\r\nETag: "a-2"\r\nConnection: close\r\n\r\n'
    whole = http_answer(HTTPStatus.OK, b"weights", 'ETag: "a-2"')

    with answering(refusal, head, whole) as server:
        fetch(f"{uri}?endpoint=http://127.0.0.1:{server.port}", tmp_path, SECRETS[uri])

    assert (tmp_path / "model" / "model.onnx").read_bytes() == b"weights"
    assert [line.split()[0] for line in server.asked] == ["GET", "HEAD", "GET"]
