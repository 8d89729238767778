"""The command ``moorage-fetch``: arguments, logs, signals and the final error message.

    moorage-fetch s3://models/iris --volume /mnt/volume

The message of a failure is written to the log, and to the file that the kubelet reports as the
container's termination message. Exit status: 0 for success, 1 for a failure, 2 for invalid usage,
143 after SIGTERM.
"""

import argparse
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from moorage_runtime.fetch.decide.amounts import parse_quantity
from moorage_runtime.fetch.decide.failures import FetchError
from moorage_runtime.fetch.decide.selection import Selection
from moorage_runtime.fetch.fetching import fetch
from moorage_runtime.settings import logs

log = logging.getLogger(__name__)

# The kubelet reads at most 4096 bytes of a message.
MESSAGE_LIMIT_BYTES = 4096


def main() -> None:
    """Fetch one model and end the process."""
    arguments = _parser().parse_args()
    logs.configure("info", "text")
    signal.signal(signal.SIGTERM, _end)
    # the server's container may run as another user
    os.umask(0o022)
    selection = Selection(tuple(arguments.include), tuple(arguments.exclude))
    try:
        fetch(
            arguments.uri, arguments.volume, os.environ,
            size_limit=arguments.size_limit, selection=selection,
        )  # fmt: skip
    except FetchError as error:
        log.error("%s", error)  # noqa: TRY400 - an expected error, without a trace
        if arguments.message_file:
            told = str(error).encode()[:MESSAGE_LIMIT_BYTES].decode(errors="ignore")
            arguments.message_file.write_text(told, encoding="utf-8")
        _leave(1)
    _leave(0)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Handle SIGTERM, which has no default action in the first process of a container."""
    del frame
    _leave(128 + number)


def _leave(status: int) -> NoReturn:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # a thread that waits for a store would keep the process alive for half a minute
    os._exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="moorage-fetch",
        description="Download a model to a volume. Resumes interrupted downloads and verifies "
        "checksums.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "uri", help="s3://, gs://, azblob://, hf://, oci:// or https:// URI of the model"
    )
    parser.add_argument(
        "--volume", type=_folder, required=True, metavar="FOLDER",
        help="target folder; the model is stored in its subfolder 'model'",
    )  # fmt: skip
    parser.add_argument(
        "--size-limit", type=_quantity, default=0, metavar="QUANTITY",
        help="maximum size of the volume, such as 20Gi; by default, the size of its file system",
    )  # fmt: skip
    parser.add_argument(
        "--include", action="append", default=[], metavar="PATTERN",
        help="fetch only files whose path below the URI matches one of these patterns, such as "
        "'*.onnx' or 'onnx/*'; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN",
        help="do not fetch files whose path matches one of these patterns; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--message-file", type=Path, metavar="FILE",
        help="file for the message of a failure, in addition to the log",
    )  # fmt: skip
    return parser


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is not a folder")
    return path


def _quantity(text: str) -> int:
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    main()
