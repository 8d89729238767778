"""Messages of ONNX Runtime for clients, without what only its developers need; pure.

    exception of the library -> text of the error of a request, or of a load

Left out are its codes, positions and signatures in its source code, failed conditions that a
sentence explains, and the paths and the name of this machine.
"""

import pathlib
import re
from typing import Final

__all__ = ["is_about_machine", "text_of"]

# Its form is: marker, number, name and message, separated by " : ".
_MARKER: Final = "[ONNXRuntimeError]"
_POSITION: Final = re.compile(r"(?<!\S)/\S*onnxruntime/\S*:\d+ ")
# Some messages contain elements of a request, and the patterns take quadratic time.
_CHARACTERS: Final = 4096
# "condition was false. Sentence"
_CONDITION: Final = re.compile(r"(?:(?<=: )|^)(?:(?!: ).)*? was false\. (?=\S)")
# CUDA's libraries append it: GPU, host, file, line and expression.
_CALL: Final = " ; GPU="
_OF_MACHINE: Final = re.compile(
    r"\b(?:CUDA|CUDNN|CUBLAS|CURAND|CUFFT)\w* failure \d|Failed to allocate memory|bad_alloc"
)


def text_of(error: Exception, path: pathlib.Path | None = None) -> str:
    """The first line of the library's message.

    Args:
        error: An exception that the library raised.
        path: The model file, whose folder is left out.
    """
    text = str(error)[:_CHARACTERS]
    if path is not None:
        text = text.replace(str(path), path.name).replace(str(path.parent), "")
    parts = text.split(" : ", 3)
    if text.startswith(_MARKER) and len(parts) == 4:
        text = parts[3]
    while found := _POSITION.search(text):
        text = text[: found.start()] + _after_signature(text[found.end() :])
    text = text.strip().partition("\n")[0].partition(_CALL)[0]
    return _CONDITION.sub("", text, count=1).strip() or type(error).__name__


def is_about_machine(text: str) -> bool:
    """Whether a message is about memory or the GPU, and not about the model."""
    return _OF_MACHINE.search(text) is not None


def _after_signature(text: str) -> str:
    """The text after the C++ signature at its start; "" if it ends with it."""
    depth, has_arguments = 0, False
    for place, character in enumerate(text):
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
            has_arguments = True
        elif character == " " and has_arguments and not depth:
            rest = text[place + 1 :]
            if not re.match(r"const\b|\[with ", rest):
                return rest
    return ""
