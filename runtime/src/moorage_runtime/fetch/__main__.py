"""The command ``moorage-fetch``: arguments, logs, signals, and the last sentence.

    moorage-fetch s3://models/iris --volume /mnt/volume

The sentence of a failure goes to the log and to the file that the kubelet shows as the container's
termination message. Exit status: 0 the model is there, 1 it is not, 2 the command is used wrongly,
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

from moorage_runtime import logs
from moorage_runtime.fetch.amounts import parse_quantity
from moorage_runtime.fetch.failures import FetchError
from moorage_runtime.fetch.fetching import fetch

log = logging.getLogger(__name__)

# The kubelet reads 4096 bytes of a message.
MESSAGE_LIMIT_BYTES = 4096


def main() -> None:
    """Fetch one model; ends the process."""
    arguments = _parser().parse_args()
    logs.configure("info", "text")
    signal.signal(signal.SIGTERM, _end)
    # the server's container may run as another user
    os.umask(0o022)
    try:
        fetch(arguments.uri, arguments.volume, os.environ, arguments.size_limit)
    except FetchError as error:
        log.error("%s", error)  # noqa: TRY400 - expected trouble, no trace
        if arguments.message_file:
            told = str(error).encode()[:MESSAGE_LIMIT_BYTES].decode(errors="ignore")
            arguments.message_file.write_text(told, encoding="utf-8")
        _leave(1)
    _leave(0)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """A first process has no default for SIGTERM; what is on the disk is of use as it is."""
    del frame
    _leave(128 + number)


def _leave(status: int) -> NoReturn:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # a thread that waits for a store would keep the process for half a minute
    os._exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="moorage-fetch",
        description="Fetch a model onto a volume: resumed, verified, and placed when it is whole.",
        allow_abbrev=False,
    )
    parser.add_argument("uri", help="s3://, gs://, hf://, oci:// or https://")
    parser.add_argument(
        "--volume", type=_folder, required=True, metavar="FOLDER",
        help="where to; the model appears in its folder 'model'",
    )  # fmt: skip
    parser.add_argument(
        "--size-limit", type=_quantity, default=0, metavar="QUANTITY",
        help="bytes that the volume may hold, such as 20Gi; default: what its file system can",
    )  # fmt: skip
    parser.add_argument(
        "--message-file", type=Path, metavar="FILE",
        help="where the sentence of a failure goes, beside the log",
    )  # fmt: skip
    return parser


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is no folder")
    return path


def _quantity(text: str) -> int:
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    main()
