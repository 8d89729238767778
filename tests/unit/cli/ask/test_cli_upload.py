"""Uploads to the real program of the upload pod, over real sockets."""

import contextlib
import hashlib
import json
import socket
import subprocess
import sys

import pytest

from moorage_cli.ask.port_forward import PortForward
from moorage_cli.ask.upload import receiver_program, send
from moorage_cli.manifests.deploying import content_of
from moorage_cli.printing.failures import Failure
from support.waiting import eventually


@contextlib.contextmanager
def receiving(root):
    """The program as the pod runs it, as text; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", receiver_program(), str(root), str(port)]
    process = subprocess.Popen(command)
    try:
        yield port
    finally:
        process.kill()
        process.wait(10)


def forward_to(port):
    return PortForward(lambda: (socket.create_connection(("127.0.0.1", port), 5), lambda: ""))


def made(folder, **files):
    """The content of files that are written to a folder, and their paths."""
    paths = {}
    for name, data in files.items():
        paths[f"sub/{name}"] = folder / name
        paths[f"sub/{name}"].write_bytes(data)
    listed = {
        name: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for name, path in paths.items()
    }
    return content_of(listed), paths


@pytest.fixture
def folders(tmp_path):
    """What is sent, and the claim."""
    for name in ("local", "claim"):
        (tmp_path / name).mkdir()
    return tmp_path / "local", tmp_path / "claim"


def test_files_arrive_whole_and_are_not_sent_again(folders):
    local, claim = folders
    content, paths = made(local, a=b"x" * 3_000_000, b=b"", c=b"end")
    counts = []

    with receiving(claim) as port:
        sent = send(lambda: forward_to(port), "iris/01", content, paths, counts.append)
        again = send(lambda: forward_to(port), "iris/01", content, paths, counts.append)

    assert (sent, again) == (True, False)
    assert counts == sorted(counts)
    assert counts[-1] == content.size_bytes
    for name in ("a", "b", "c"):
        assert (claim / "iris" / "01" / "sub" / name).read_bytes() == (local / name).read_bytes()
    assert [each.name for each in claim.iterdir()] == ["iris"]


def test_content_that_changes_during_the_upload_is_refused_and_nothing_stays(folders):
    local, claim = folders
    content, paths = made(local, a=b"before")
    paths["sub/a"].write_bytes(b"after!")

    with receiving(claim) as port, pytest.raises(Failure, match="the upload failed: a: the conte"):
        send(lambda: forward_to(port), "iris/01", content, paths, lambda _: None)

    assert list(claim.iterdir()) == []


def test_a_file_that_becomes_shorter_is_named(folders):
    local, claim = folders
    content, paths = made(local, a=b"before")
    paths["sub/a"].write_bytes(b"")

    with receiving(claim) as port, pytest.raises(Failure, match="a became shorter"):
        send(lambda: forward_to(port), "iris/01", content, paths, lambda _: None)


def test_a_broken_off_upload_leaves_nothing_and_the_next_one_succeeds(folders):
    local, claim = folders
    content, paths = made(local, a=b"x" * 1000)
    header = {"target": "iris/01", "files": [["sub/a", 1000, "0" * 64]]}

    with receiving(claim) as port:
        connection = eventually(
            "the program listens", lambda: connected(port), lambda found: found is not None, 30
        )
        with connection, connection.makefile("rwb") as stream:
            stream.write(json.dumps(header).encode() + b"\n" + b"x" * 10)
            stream.flush()
            assert json.loads(stream.readline()) == {"send": True}
        eventually("nothing stays", lambda: list(claim.iterdir()), lambda found: not found, 30)

        assert send(lambda: forward_to(port), "iris/01", content, paths, lambda _: None)


def connected(port):
    with contextlib.suppress(OSError):
        return socket.create_connection(("127.0.0.1", port), 5)
    return None


def test_a_full_or_read_only_claim_is_named_by_the_pod(folders):
    local, claim = folders
    content, paths = made(local, a=b"x")
    (claim / "iris").write_text("a file where the folder should be")

    with receiving(claim) as port, pytest.raises(Failure, match=r"the upload failed: .*iris"):
        send(lambda: forward_to(port), "iris/01", content, paths, lambda _: None)
