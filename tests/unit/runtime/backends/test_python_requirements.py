"""The requirements.txt of a Python model: only pinned versions with hashes are accepted."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.backends.python.requirements import check
from moorage_runtime.values.errors import InvalidConfig

COMMENT = re.compile(r"(^|\s)#.*$")
HASH = "--hash=sha256:" + "a" * 64


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n\n",
        f"numpy==2.2.0 {HASH}",
        f"numpy==2.2.0 \\\n    {HASH} \\\n    {HASH}\n    # via -r requirements.in\nb==1 {HASH}\n",
        f"a.b-c_d[x,y] == 1.0.post1+cpu ; python_version >= '3.11' {HASH} # why",
        "a==1 --hash=sha512:" + "0" * 128,
        f"a===1 {HASH}\r\nb==2 {HASH}\r\n",
    ],
)
def test_pinned_versions_with_hashes_are_accepted(text):
    check(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("# nothing\n", 0),
        (f"numpy==2.2.0 {HASH}", 1),
        (f"a.b[x]==1 {HASH}\nc == 1 {HASH}\n# d==1\ne===1 {HASH}", 3),
        (f"a-b==1 ; python_version < '3.9' {HASH}\nA_b==2 ; python_version > '3' {HASH}", 1),
    ],
    ids=["none", "one", "three", "the same with different markers"],
)
def test_each_package_counts_once(text, count):
    assert check(text) == count


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("numpy==2.2.0", 1, "'numpy==2.2.0' has no hash"),
        (f"a==1 {HASH}\n\n# b\nnumpy==1\nc==1 {HASH}", 4, "'numpy==1' has no hash"),
        (f"a==1 \\\n  {HASH}\nb==1 \\\n\n", 3, "'b==1' has no hash"),
        (f"numpy>=2 {HASH}", 1, "'numpy>=2' is not a pinned version"),
        (f"numpy {HASH}", 1, "'numpy' is not a pinned version"),
        (f"a @ https://example/a.whl {HASH}", 1, "is not a pinned version"),
        (f"./a.whl {HASH}", 1, "is not a pinned version"),
        (f"numpy==2.* {HASH}", 1, "is not a pinned version"),
        ("--index-url https://example\n", 1, "'--index-url' is not allowed"),
        (f"a==1 {HASH}\n-r more.txt", 2, "'-r' is not allowed"),
        ("-e .", 1, "'-e' is not allowed"),
        ("a==1 --hash=md5:" + "a" * 32, 1, "'a==1' has an invalid hash or option"),
        ("a==1 --hash=sha256:12", 1, "'a==1' has an invalid hash or option"),
        (f"a==1 {HASH} --config-settings=x=y", 1, "'a==1' has an invalid hash or option"),
        (f"a==1 ; python_version > '3' --index-url=x {HASH}", 1, "is not a pinned version"),
        (f"a==1 --no-binary=:all: {HASH}", 1, "is not a pinned version"),
    ],
)
def test_any_other_line_is_refused_with_its_number(text, line, words):
    with pytest.raises(InvalidConfig) as caught:
        check(text)

    assert f"line {line}:" in caught.value.message
    assert words in caught.value.message


@given(st.text("a=1-\\\n# hsx:;@/", max_size=80))
def test_any_text_is_accepted_or_refused(text):
    with contextlib.suppress(InvalidConfig):
        check(text)
        written = "".join(COMMENT.sub("", line) for line in text.splitlines())
        assert "==" in text or not written.strip(" \\")
