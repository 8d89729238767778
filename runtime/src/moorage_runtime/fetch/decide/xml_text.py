"""Parses XML in the responses of stores. Pure."""

from xml.etree import ElementTree as ET

__all__ = ["element_of"]


def element_of(text: bytes | str) -> ET.Element:
    """The root of a document.

    Raises:
        ValueError: The text is not XML, or has an encoding that does not exist.
    """
    try:
        return ET.fromstring(text)  # noqa: S314  expat bounds the expansion of entities itself
    except (ET.ParseError, LookupError) as error:
        raise ValueError(f"not XML: {error}") from error
