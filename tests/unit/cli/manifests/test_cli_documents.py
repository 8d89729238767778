"""YAML that is not accepted: each text is refused in a moment, with the reason and the place."""

import pytest

from moorage_cli.manifests.documents import DocumentError, read_documents

LISTS = "a0: &a0 [x]\n" + "".join(
    f"a{at}: &a{at} [{','.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 30)
)
TEXTS = f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 1000)}]\n"
MERGES = "b0: &b0 {x: 1}\n" + "".join(
    f"b{at}: &b{at} {{<<: [*b{at - 1}, *b{at - 1}]}}\n" for at in range(1, 30)
)
REFUSED = {
    LISTS: "its aliases repeat too much: write the values without aliases",
    TEXTS: "its aliases repeat too much",
    MERGES: "merge keys add more than 10000 fields",
    "a: &a [*a]": "it contains itself, by an alias",
    "a: &a {b: *a}": "it contains itself, by an alias",
    "[" * 100_000: "it is nested too deeply",
    "a:\n  b: " + "9" * 5000: "line 2, column 6: the number has too many digits",
    "a: .nan": "line 1, column 4: .nan has no equivalent in JSON",
    "a: -.inf": "line 1, column 4: -.inf has no equivalent in JSON",
    "a: !!set {x}": "line 1, column 4: could not determine a constructor for the tag",
    "a: !!binary aGVsbG8=": "line 1, column 4: could not determine a constructor for the tag",
    "a: !!timestamp 2020-01-01": "line 1, column 4: could not determine a constructor",
    "a: !!python/object/apply:os.system [id]": "could not determine a constructor for the tag",
    "a: 1\n[b]: 2": "line 2, column 1: a key must not be a list or an object",
    "a: 1\nb: 2\na: 3": "line 3, column 1: duplicate key 'a'",
    "1: 1\n'1': 2": "line 2, column 1: duplicate key '1'",
    "a:\n\tb: 1": "line 2, column 1: found character '\\t' that cannot start any token",
    "a: 'x": "found unexpected end of stream",
    "a: \x00": "it contains a character that YAML does not allow",
    'a: "\\ud800"': "it contains half of a surrogate pair",
    'a: "\\UFFFFFFFF"': "it has an escape sequence that is not a character",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:20]))
def test_a_text_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read_documents(text)

    assert REFUSED[text] in str(refused.value)
    assert len(str(refused.value)) < 200


def test_aliases_are_accepted_within_the_limit() -> None:
    text = "a: &a {b: [1, 2]}\nc: [*a, *a, *a]\nd: {<<: *a, e: 1}\n"
    (document,) = read_documents(text)

    assert document.value["c"] == [{"b": [1, 2]}] * 3
    assert document.value["d"] == {"b": [1, 2], "e": 1}


def test_a_large_text_without_aliases_is_accepted() -> None:
    (document,) = read_documents(f"a: {'x' * 2_000_000}\n")

    assert len(document.value["a"]) == 2_000_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{\n\t"a": {\n\t\t"b": [1, 2.5, null]\n\t}\n}\n', {"a": {"b": [1, 2.5, None]}}),
        (r'{"a": "\ud83d\ude00 \/"}', {"a": "😀 /"}),
        ('{"a": 1e3, "b": "on"}', {"a": 1000.0, "b": "on"}),
    ],
    ids=["tabs", "escaped halves of a character", "exponent"],
)
def test_json_is_read_as_kubectl_reads_it(text: str, value: object) -> None:
    (document,) = read_documents(text)

    assert document.value == value
    assert text[document.start : document.end] == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True), ("N", False), ("on", True), ("No", False), ("yy", "yy"),
        ("1e-3", 0.001), ("1E3", 1000), ("1.e3", 1000), ("0o10", 8), ("-0o7", -7), ("08", 8),
        ("0o9", "0o9"), ("0B11", "0B11"),
        ("12:30", "12:30"), ("1:30:00.5", "1:30:00.5"),
    ],
)  # fmt: skip
def test_a_word_without_quotes_is_read_as_kubectl_reads_it(text: str, value: object) -> None:
    for given, expected in ((text, value), (f"'{text}'", text)):
        (document,) = read_documents(f"a: {given}\n")

        assert document.value == {"a": expected}
        assert type(document.value["a"]) in {type(expected), float}


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": "\\ud83d"}', '{"a": 1', '{"a": .nan}']
)
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        read_documents(text)
