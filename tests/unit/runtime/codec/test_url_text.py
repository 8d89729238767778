"""Parts of a URL's path become text."""

import pytest

from moorage_runtime.codec.url_text import decoded


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("m", "m"),
        ("a%2Fb+%25", "a/b+%"),
        ("%EC%95%88", "\uc548"),
        ("\xec\x95\x88", "\uc548"),
        ("\xec%95\x88", "\uc548"),
        ("%FF\xff", "\ufffd\ufffd"),
        ("%zz", "%zz"),
    ],
)
def test_a_part_is_decoded_from_percent_encoding_and_utf_8(path, text):
    assert decoded(path) == text
