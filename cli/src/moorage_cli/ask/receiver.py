"""Runs in the upload pod, as the text of a Python program: writes what one connection sends.

Only the standard library exists there. It listens on the pod's loopback address, so only a
port-forward reaches it. A header line lists the files, and their bytes follow in that order:

    {"target": "iris/0123", "files": [["model.onnx", 5, "SHA-256"]]} newline, bytes
    --> {"present": true}      the target exists already
    --> {"send": true}         the bytes are expected
    --> {"done": true}         all of them are written and verified
    --> {"error": "..."}

The files appear at the target as a whole, by a rename, or not at all.
"""

import hashlib
import json
import os
import pathlib
import shutil
import socket
import sys
from io import BufferedRWPair
from typing import Any

CHUNK = 1 << 20


def main(root: str, port: int) -> None:
    """Serve one connection after another; the pod is deleted from outside."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:
                try:
                    header = json.loads(stream.readline())
                except ValueError:
                    continue
                try:
                    _receive(pathlib.Path(root), stream, header)
                except (OSError, ValueError) as error:
                    _answer(stream, {"error": str(error)})
                # the client closes first: a port-forward may lose the last bytes otherwise
                connection.settimeout(30)
                _drain(connection)


def _receive(root: pathlib.Path, stream: BufferedRWPair, header: dict[str, Any]) -> None:
    target = root / header["target"]
    if target.exists():
        _answer(stream, {"present": True})
        return
    partial = root / f".{header['target'].replace('/', '-')}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _answer(stream, {"send": True})
    try:
        for path, size, digest in header["files"]:
            _write(stream, partial / path, size, digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _answer(stream, {"done": True})


def _write(stream: BufferedRWPair, path: pathlib.Path, size: int, digest: str) -> None:
    found = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        left = size
        while left:
            data = stream.read(min(CHUNK, left))
            if not data:
                raise ValueError(f"{path.name}: the connection ended {left} bytes too early")
            found.update(data)
            file.write(data)
            left -= len(data)
        file.flush()
        os.fsync(file.fileno())
    if found.hexdigest() != digest:
        raise ValueError(f"{path.name}: the content has the SHA-256 {found.hexdigest()}")


def _answer(stream: BufferedRWPair, document: dict[str, Any]) -> None:
    try:
        stream.write(json.dumps(document).encode() + b"\n")
        stream.flush()
    except OSError:
        return  # nobody listens


def _drain(connection: socket.socket) -> None:
    try:
        while connection.recv(CHUNK):
            pass
    except OSError:
        return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
