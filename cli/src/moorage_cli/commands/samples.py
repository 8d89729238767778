"""The printed command that sends a sample request; used by `moorage run` and `deploy`."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moorage_cli.ask.inference.sample import curl

__all__ = ["sample_command"]

# A longer body would fill the terminal, and a command line has a limit.
INLINE_LIMIT_BYTES = 4096


def sample_command(url: str, body: Mapping[str, Any], folder: Path | None = None) -> str:
    """The curl command of a request, whose body is in a file if it is long.

    Args:
        url: Where the request goes.
        body: The body, whose strings are clean.
        folder: Where a long body is written; None for a new folder that stays.
    """
    text = json.dumps(body)
    if len(text) <= INLINE_LIMIT_BYTES:
        return curl(url, body)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="moorage-sample-"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "request.json"
    file.write_text(text, encoding="utf-8")
    return curl(url, body, str(file))
