"""A server with the Hub's API: one commit, every byte verified."""

import hashlib
import json

import pytest

from support.file_server import FileServer, Route

pytestmark = [pytest.mark.conformance]

COMMIT = "5" * 40
API = "/api/models/org/iris"
WEIGHTS, CONFIG = b"weights" * 1000, b'{"a": 1}'


@pytest.fixture
def hub(secure: FileServer) -> FileServer:
    def add(path: str, document: object) -> None:
        secure.routes[path] = Route(json.dumps(document).encode())

    git = hashlib.sha1(b"blob %d\0" % len(CONFIG) + CONFIG).hexdigest()
    large = {"oid": hashlib.sha256(WEIGHTS).hexdigest(), "size": len(WEIGHTS), "pointerSize": 99}
    weights = {"type": "file", "path": "onnx/model.onnx", "oid": "1" * 40, "lfs": large}
    small = {"type": "file", "path": "config.json", "oid": git, "size": len(CONFIG)}
    add(f"{API}/revision/main", {"sha": COMMIT})
    add(f"{API}/revision/refs%2Fpr%2F1", {"sha": COMMIT})
    add(f"{API}/tree/{COMMIT}", [{"type": "directory", "path": "onnx"}, weights])
    add(f"{API}/tree/{COMMIT}?recursive=true&cursor=2", [small])
    more = f'<{secure.url}{API}/tree/{COMMIT}?recursive=true&cursor=2>; rel="next"'
    secure.routes[f"{API}/tree/{COMMIT}?recursive=true"] = Route(
        secure.routes[f"{API}/tree/{COMMIT}"].body, headers={"Link": more}
    )
    secure.routes[f"/org/iris/resolve/{COMMIT}/onnx/model.onnx"] = Route(location="/cdn/weights")
    secure.routes["/cdn/weights"] = Route(WEIGHTS)
    secure.routes[f"/org/iris/resolve/{COMMIT}/config.json"] = Route(CONFIG)
    return secure


def test_a_repository_is_listed_over_several_pages_at_one_commit(hub, fetch, trusted):
    done = fetch("hf://org/iris", {**trusted, "HF_ENDPOINT": hub.url, "HF_TOKEN": "very-secret"})

    assert done.files == {"onnx/model.onnx": WEIGHTS, "config.json": CONFIG}, done.log
    assert COMMIT in done.log
    assert hub.requests[0].headers["authorization"] == "Bearer very-secret"
    assert "very-secret" not in done.log


def test_a_folder_and_a_file_of_a_revision_are_downloaded(hub, fetch, trusted):
    uri = f"hf://org/iris@refs%2Fpr%2F1/{{}}?endpoint={hub.url}"

    assert fetch(uri.format("onnx"), trusted).files == {"model.onnx": WEIGHTS}
    assert fetch(uri.format("config.json"), trusted).files == {"config.json": CONFIG}


@pytest.mark.parametrize("path", ["/cdn/weights", f"/org/iris/resolve/{COMMIT}/config.json"])
def test_content_that_differs_from_the_commit_is_detected(hub, fetch, trusted, path):
    good = hub.routes[path].body
    hub.routes[path] = Route(good[:-1] + b"?")

    done = fetch("hf://org/iris", {**trusted, "HF_ENDPOINT": hub.url})

    assert "the checksum of" in done.message


def test_a_private_repository_is_reported_with_the_required_token(hub, fetch, trusted):
    hub.routes[f"{API}/revision/main"] = Route(failures=[401] * 3)

    done = fetch("hf://org/iris", {**trusted, "HF_ENDPOINT": hub.url})

    assert "hf://org/iris@main does not exist or is private" in done.message
    assert "HF_TOKEN" in done.message
