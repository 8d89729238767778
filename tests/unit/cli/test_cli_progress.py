"""Progress on a terminal and elsewhere."""

import pytest

from moorage_cli.printing.progress import Progress, size


def shown(counts, *, is_terminal):
    texts = []
    progress = Progress(texts.append, is_terminal=is_terminal)
    for sent in counts:
        progress.count(sent, 1000)
    progress.tell("done\x1b[31m")
    return texts


def test_a_terminal_has_one_line_that_ends_before_the_next_sentence():
    texts = shown([1, 2, 20, 500], is_terminal=True)

    assert texts == [
        "\r1 B of 1000 B (0 %)\x1b[K",
        "\r20 B of 1000 B (2 %)\x1b[K",
        "\r500 B of 1000 B (50 %)\x1b[K",
        "\n",
        "done\N{REPLACEMENT CHARACTER}[31m\n",
    ]


def test_elsewhere_each_tenth_has_a_line():
    texts = shown(range(1, 1001), is_terminal=False)

    assert len(texts) == 12
    assert texts[-2] == "1000 B of 1000 B (100 %)\n"


def test_an_empty_file_is_complete_at_once():
    texts = []
    Progress(texts.append, is_terminal=False).count(0, 0)

    assert texts == ["0 B of 0 B (0 %)\n"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 40, "3072.0 GiB"),
    ],
)
def test_a_size_has_its_largest_unit(count, text):
    assert size(count) == text
