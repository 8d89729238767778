"""XML of stores is parsed or refused."""

import pytest

from moorage_runtime.fetch.decide.xml_text import element_of


@pytest.mark.parametrize("text", [b"<a>b</a>", "\ufeff<a>b</a>", "\ufeff<a>b</a>".encode()])
def test_xml_is_parsed_with_or_without_a_byte_order_mark(text):
    assert (element_of(text).tag, element_of(text).text) == ("a", "b")


@pytest.mark.parametrize(
    "text", [b"", "<a>", "\ud800", b"<?xml version='1.0' encoding='wrong'?><a/>"]
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"not XML|surrogates"):
        element_of(text)


def test_a_refusal_has_the_reason():
    with pytest.raises(ValueError, match=r"^not XML: unknown encoding: wrong$"):
        element_of(b"<?xml version='1.0' encoding='wrong'?><a/>")
