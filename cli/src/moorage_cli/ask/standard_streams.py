"""Standard input, output and error of the process, also if the caller has closed them.

Text is UTF-8 in every locale, like the files that the commands read and the answers of servers.
"""

import io
import os
import sys

from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["complain", "discard_output", "open_streams", "write_output"]


def open_streams() -> None:
    """Make the three streams usable.

    Closed input and output are opened so that each use of them fails, and closed errors go
    nowhere. Otherwise, the next file that is opened would take their number, and the output.
    """
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream, errors in (
        (sys.stdin, "strict"),
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
    ):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def write_output(text: str) -> None:
    """Write to standard output at once.

    Raises:
        BrokenPipeError: The reader, such as `head`, has closed the pipe.
        Failure: It cannot be written, for example because the disk is full.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise Failure(f"standard output cannot be written: {reason_of(error)}") from error


def discard_output() -> None:
    """Let what is still buffered go nowhere, so that the end of the process does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """Write to standard error at once, if anybody can read it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
