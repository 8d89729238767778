"""The picture in the terminal and the label in the answer."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import digits

SAMPLES = sorted(
    (Path(__file__).resolve().parents[3] / "examples/01-digits/samples").glob("*.json")
)
PIXELS = st.lists(
    st.lists(st.floats(min_value=0, max_value=16), min_size=8, max_size=8), min_size=8, max_size=8
)


def answer(*outputs):
    return json.dumps({"model_name": "digits", "outputs": list(outputs)})


@given(PIXELS)
def test_a_picture_is_eight_rows_of_sixteen_characters(pixels):
    rows = digits.draw(pixels).split("\n")
    assert [len(row) for row in rows] == [16] * 8
    assert set("".join(rows)) <= set(digits.SHADES)


def test_brighter_pixels_are_drawn_darker_on_paper():
    row = digits.draw([[0, 2, 4, 8, 12, 14, 15, 16]])
    shades = [digits.SHADES.index(character) for character in row]
    assert shades == sorted(shades)
    assert (row[:2], row[-2:]) == ("  ", "@@")


@pytest.mark.parametrize(
    ("body", "label"),
    [
        (answer({"name": "label", "data": [3]}), 3),
        (answer({"name": "probabilities", "data": [0.1]}, {"name": "label", "data": [7]}), 7),
    ],
)
def test_the_label_is_found_by_its_name(body, label):
    assert digits.answered_label(body) == label


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>502</html>",
        "[]",
        '{"error":"model digits is not ready"}',
        answer(),
        answer({"name": "other", "data": [3]}),
        answer({"name": "label", "data": []}),
        answer({"name": "label"}),
        answer({"name": "label", "data": [None]}),
    ],
)
def test_another_answer_is_an_error_that_shows_it(body):
    with pytest.raises(ValueError, match="not an inference response") as refused:
        digits.answered_label(body)
    assert body[:50] in str(refused.value)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_a_picture_with_the_label_of_its_name(path):
    sample = digits.read_sample(path)

    assert [len(row) for row in sample.pixels] == [8] * 8
    assert all(0 <= value <= 16 for row in sample.pixels for value in row)
    assert str(sample.expected) == path.stem[-1]


def test_there_are_samples():
    assert len(SAMPLES) >= 3


@pytest.mark.parametrize("nesting", [1, 2, 4])
def test_a_sample_may_nest_its_data_as_it_likes(tmp_path, nesting):
    flat = list(range(16)) * 4
    data = {
        1: flat,
        2: [flat],
        4: [[[[value] for value in flat[row * 8 : row * 8 + 8]] for row in range(8)]],
    }[nesting]
    path = tmp_path / "digit-5.json"
    path.write_text(json.dumps({"inputs": [{"data": data}]}))

    sample = digits.read_sample(path)

    assert [value for row in sample.pixels for value in row] == flat
    assert sample.expected == 5
