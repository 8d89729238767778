"""Sends files to the upload pod through a port-forward and reads its verdict.

Content, files of this machine --> port-forward --> receiver (in the pod) --> claim
"""

import json
import socket
import time
from collections.abc import Callable
from io import BufferedRWPair
from pathlib import Path
from typing import Any

from moorage_cli.ask import receiver
from moorage_cli.ask.port_forward import PortForward
from moorage_cli.manifests.deploying import Content
from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["receiver_program", "send"]

CHUNK = 1 << 18
# The program in the pod starts within this time after its container.
OPEN_SECONDS = 60.0
RETRY_SECONDS = 0.5
# Verifying and syncing the last file.
ANSWER_SECONDS = 600.0


def receiver_program() -> str:
    """The text of the program that the pod runs."""
    return Path(receiver.__file__).read_text(encoding="utf-8")


def send(
    open_forward: Callable[[], PortForward],
    target: str,
    content: Content,
    paths: dict[str, Path],
    progress: Callable[[int], None],
) -> bool:
    """Send the files; False if the target exists already.

    Args:
        open_forward: Makes a port-forward to the pod.
        target: Folder of the claim that gets the files.
        content: The files, with their sizes and digests.
        paths: Where they are on this machine.
        progress: Receives the number of bytes sent so far.

    Raises:
        Failure: The pod does not answer, or does not get what it expects.
    """
    listed = [[path, *of] for path, of in content.files.items()]
    header = json.dumps({"target": target, "files": listed}).encode() + b"\n"
    deadline = time.monotonic() + OPEN_SECONDS
    while True:
        with open_forward() as forward:
            answer = _first_answer(forward, header, content, paths, progress)
            if answer is not None:
                return answer
            problem = forward.problem
        if time.monotonic() > deadline:
            raise Failure(f"the upload pod does not answer: {problem or 'no connection'}")
        time.sleep(RETRY_SECONDS)


def _first_answer(
    forward: PortForward,
    header: bytes,
    content: Content,
    paths: dict[str, Path],
    progress: Callable[[int], None],
) -> bool | None:
    """Whether files were sent; None if the program in the pod does not listen yet."""
    host, _, port = forward.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), OPEN_SECONDS) as connection,
        connection.makefile("rwb") as stream,
    ):
        try:
            stream.write(header)
            stream.flush()
            first = stream.readline()
        except OSError:
            return None
        if not first:
            return None
        if _read(first).get("present"):
            return False
        connection.settimeout(ANSWER_SECONDS)
        try:
            _send_files(stream, content, paths, progress)
            answer = _read(stream.readline())
        except OSError as error:
            problem = forward.problem or reason_of(error)
            raise Failure(f"the upload broke off: {problem}: run the command again") from error
    if not answer.get("done"):
        raise Failure(f"the upload failed: {answer.get('error') or 'the connection ended'}")
    return True


def _send_files(
    stream: BufferedRWPair,
    content: Content,
    paths: dict[str, Path],
    progress: Callable[[int], None],
) -> None:
    sent = 0
    for path, (size, _) in content.files.items():
        left = size
        with paths[path].open("rb") as file:
            while left:
                data = file.read(min(CHUNK, left))
                if not data:
                    raise Failure(f"{paths[path]} became shorter during the upload")
                stream.write(data)
                left -= len(data)
                sent += len(data)
                progress(sent)
    stream.flush()


def _read(line: bytes) -> dict[str, Any]:
    """An answer of the pod.

    Raises:
        Failure: The pod reports an error.
    """
    try:
        answer = json.loads(line or b"{}")
    except ValueError:
        answer = {}
    if not isinstance(answer, dict):
        return {}
    if "error" in answer:
        raise Failure(f"the upload failed: {answer['error']}")
    return answer
