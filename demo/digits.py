"""Shows the digits example in the terminal: the picture and the answer."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Darkest to brightest; a pixel of the data set is 0 to 16.
SHADES = " .:-=+*#%@"
BRIGHTEST = 16.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A held-out picture of a digit: 8 rows of 8 pixels from 0 to 16, and what it shows."""

    pixels: list[list[float]]
    expected: int


def draw(pixels: list[list[float]]) -> str:
    """The picture as text, with two characters per pixel so that it looks square."""
    top = len(SHADES) - 1
    return "\n".join(
        "".join(SHADES[round(value / BRIGHTEST * top)] * 2 for value in row) for row in pixels
    )


def answered_label(body: str) -> int:
    """The label in an Open Inference Protocol response.

    Raises:
        ValueError: The body is not such a response; the text shows its beginning.
    """
    try:
        outputs: list[dict[str, Any]] = json.loads(body)["outputs"]
        return next(int(item["data"][0]) for item in outputs if item["name"] == "label")
    except (ValueError, KeyError, TypeError, StopIteration, IndexError) as error:
        raise ValueError(f"not an inference response: {body[:200]}") from error


def read_sample(path: Path) -> Sample:
    """Read a sample from its request file (`digit-<expected>.json`)."""
    body: dict[str, Any] = json.loads(path.read_text())
    flat = body["inputs"][0]["data"]
    while flat and isinstance(flat[0], list):
        flat = [value for row in flat for value in row]
    expected = int(path.stem.rsplit("-", 1)[1])
    return Sample([flat[row * 8 : row * 8 + 8] for row in range(8)], expected)
