"""`spec.model.name` and `spec.model.version`: which characters they may have; pure.

Most protocols put the name and the version into URL paths, each as one segment. OpenAI-compatible
servers have the name in the body of a request, and many of them use names such as org/model or
llama3:8b.
"""

import re

from .fields import Fields

__all__ = ["check_model_name", "parse_model_name", "parse_model_version"]

# Dots alone have a meaning of their own in URL paths and file paths.
SEGMENT = re.compile(r"\.*[A-Za-z0-9_-][A-Za-z0-9._-]*")
MODEL_NAME = re.compile(r"[./:@+]*[A-Za-z0-9_-][A-Za-z0-9._/:@+-]*")
NAMED_IN_BODY = ("OpenAI", "None", "Auto")
"""The protocols that have no name in URL paths; Auto only with a server that is not bundled."""


def parse_model_name(fields: Fields, default: str) -> str:
    """Read the name, `default` if it is absent or invalid."""
    text = fields.text("name", default)
    if MODEL_NAME.fullmatch(text):
        return text
    expected = "letters, digits, '.', '_', '-', '/', ':', '@' and '+', with a letter or digit"
    fields.reject("name", text, expected)
    return default


def parse_model_version(fields: Fields) -> str:
    """Read the version, "" if it is absent or invalid."""
    text = fields.text("version")
    if not text or SEGMENT.fullmatch(text):
        return text
    fields.reject("version", text, "letters, digits, '.', '_' and '-', and not only dots")
    return ""


def check_model_name(spec: Fields, name: str, protocol: str, image: str) -> None:
    """Report a name that is not one segment with a protocol that has it in URL paths."""
    if SEGMENT.fullmatch(name):
        return
    if protocol not in NAMED_IN_BODY:
        sentence = (
            f"{name!r} is invalid: with protocol {protocol}, the name is part of URL paths and "
            "must have only letters, digits, '.', '_' and '-'; rename the model, or set protocol "
            "to OpenAI if the server speaks it"
        )
        spec.report("model.name", sentence)
    elif not image:
        sentence = (
            f"{name!r} is invalid: the bundled runtime has the name in URL paths, so it must have "
            "only letters, digits, '.', '_' and '-'; rename the model, or set runtime.image"
        )
        spec.report("model.name", sentence)
