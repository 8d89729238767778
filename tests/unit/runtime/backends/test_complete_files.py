"""Checks of the files of boosted trees, before libraries read them that end the process."""

import copy
import functools
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.backends.tables import lightgbm_text, ubjson, xgboost_trees

# A tree with three leaves, of which a categorical node is the second; then one leaf alone.
TEXT = """\
tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=2
objective=regression
feature_names=a b c
feature_infos=[-1:1] 0:1:2 none
tree_sizes=252 53

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
split_gain=1 2
threshold=0.5 0
decision_type=2 1
left_child=1 -2
right_child=-1 -3
leaf_value=0.1 0.2 0.3
leaf_weight=1 2 3
leaf_count=1 2 3
cat_boundaries=0 1
cat_threshold=6
is_linear=0
shrinkage=1


Tree=1
num_leaves=1
num_cat=0
leaf_value=0.1
is_linear=0


end of trees

pandas_categorical:null
"""


def sized(text: str) -> str:
    """The text with the sizes of its trees."""
    data = text.encode()
    start, end = data.index(b"Tree=0"), data.index(b"end of trees")
    second = data.index(b"Tree=1")
    return re.sub(r"tree_sizes=.*", f"tree_sizes={second - start} {end - second}", text)


def test_a_complete_text_names_its_categorical_columns():
    assert lightgbm_text.parse(sized(TEXT)).categorical == (1,)


TWO_CATEGORIES = TEXT.replace("num_cat=1", "num_cat=2")


@pytest.mark.parametrize(
    "sound",
    [
        TEXT.replace("split_feature=0 1", "split_feature=0 2"),
        TEXT.replace("split_feature=0 1", "split_feature=1 1"),
        # the first node compares its column with 7.5, the second one has the category set 0
        TEXT.replace("threshold=0.5 0", "threshold=7.5 0").replace("=2 1\n", "=0 1\n"),
        # the first category set is empty
        TWO_CATEGORIES.replace("cat_boundaries=0 1", "cat_boundaries=0 0 1"),
        f"{TEXT}\nend of trees\n",
        f"{TEXT}\nTree=0\n",
    ],
)
def test_a_sound_text_is_accepted(sound):
    assert lightgbm_text.parse(sized(sound)).categorical == (1,)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("tree\nversion", "Tree\nversion", "the first line must be 'tree'"),
        ("end of trees", "end", "the line 'end of trees' is missing: the file is incomplete"),
        (
            "end of trees",
            "end of trees\n\nparameters:\n[boosting: gbdt]\n[objective",
            "the line 'end of parameters' is missing: the file is incomplete",
        ),
        (
            "max_feature_idx=2",
            "max_feature_idx=many",
            "max_feature_idx is 'many': must be an integer",
        ),
        ("num_class=1", "", "num_class is '': must be an integer"),
        ("feature_names=a b c", "feature_names=a b", "feature_names has 2 entries: must have 3"),
        ("feature_infos=[-1:1]", "feature_infos=", "feature_infos has 2 entries: must have 3"),
        ("feature_names=a b c\n", "", "feature_names has 0 entries: must have 3"),
        ("feature_infos=[-1:1] 0:1:2 none\n", "", "feature_infos has 0 entries: must have 3"),
        (
            "max_feature_idx=2",
            "max_feature_idx=x23456789012345678901",
            "max_feature_idx is 'x2345678901234567890': must be an integer",
        ),
        (
            "version=v4",
            "a line of more than forty characters has no place here",
            "the line 'a line of more than forty characters has' must be KEY=VALUE",
        ),
        ("leaf_weight=1 2 3", "leaf_weight=1 2", "tree 0: leaf_weight must have 3 entries"),
        ("leaf_value=0.1 0.2 0.3\n", "", "tree 0: leaf_value must have 3 entries"),
        ("is_linear=0", "is_linear=0 1", "tree 0: is_linear must be a number"),
        (
            "num_leaves=1\nnum_cat=0\nleaf_value=0.1",
            "num_leaves=2\nnum_cat=0\nleaf_value=0.1 0.2",
            "tree 1: split_feature must have 1 entries",
        ),
        ("split_gain=1 2", "split_gain=1 2_0", "tree 0: split_gain must contain numbers"),
        ("split_gain=1 2", "split_gain", "tree 0: the line 'split_gain' must be KEY=VALUE"),
        ("shrinkage=1", "shrinkage=1 2", "tree 0: shrinkage must be a number"),
        (
            "cat_boundaries=0 1",
            "cat_boundaries=0 9999999999",
            "tree 0: cat_boundaries must contain integers of 32 bits",
        ),
        ("num_leaves=3", "num_leaves=0", "tree 0: num_leaves is 0"),
        ("leaf_value=0.1 0.2 0.3", "leaf_value=0.1", "tree 0: leaf_value must have 3 entries"),
        ("leaf_value=0.1 0.2 0.3", "leaf_value=a b c", "tree 0: leaf_value must contain numbers"),
        ("split_feature=0 1", "split_feature=0 3", "tree 0: split_feature must be from 0 to 2"),
        ("split_feature=0 1", "split_feature=0 x", "tree 0: split_feature must contain integers"),
        (
            "split_feature=0 1",
            "split_feature=0_0 1",
            "tree 0: split_feature must contain integers",
        ),
        ("left_child=1 -2", "left_child=0_1 -2", "tree 0: left_child must contain integers"),
        ("left_child=1 -2", "left_child=\u0661 -2", "tree 0: left_child must contain integers"),
        (
            "leaf_value=0.1 0.2",
            "leaf_value=0.\u0661 0.2",
            "tree 0: leaf_value must contain numbers",
        ),
        ("num_leaves=3", "num_leaves=0_3", "tree 0: num_leaves is '0_3': must be an integer"),
        ("threshold=0.5 0", "threshold=0.5", "tree 0: threshold must have 2 entries"),
        (
            "left_child=1 -2",
            "left_child=1 -9",
            "tree 0: left_child and right_child do not form a tree",
        ),
        (
            "left_child=1 -2",
            "left_child=0 -2",
            "tree 0: left_child and right_child do not form a tree",
        ),
        (
            "right_child=-1 -3",
            "right_child=-1 -2",
            "tree 0: left_child and right_child do not form a tree",
        ),
        (
            "left_child=1 -2\nright_child=-1 -3",
            "left_child=-1 1\nright_child=-2 -3",
            "tree 0: left_child and right_child do not form a tree",
        ),
        (
            "left_child=1 -2",
            "left_child=1 -2147483648",
            "tree 0: left_child and right_child do not form a tree",
        ),
        (
            "left_child=1 -2",
            "left_child=2147483648 -2",
            "tree 0: left_child must contain integers of 32 bits",
        ),
        ("num_cat=1", "num_cat=0", "tree 0: num_cat is 0, but a node is categorical"),
        ("num_cat=1", "num_cat=-1", "tree 0: num_cat is -1"),
        # the last of two equal keys counts, and the boundaries are missing
        ("cat_boundaries=0 1", "num_cat=-1", "tree 0: num_cat is -1"),
        (
            "cat_boundaries=0 1\n",
            "",
            "tree 0: cat_boundaries must have 2 ascending entries from 0",
        ),
        (
            "cat_boundaries=0 1",
            "cat_boundaries=1 1",
            "tree 0: cat_boundaries must have 2 ascending entries from 0",
        ),
        ("num_cat=1", "num_cat=2", "tree 0: cat_boundaries must have 3 ascending entries from 0"),
        ("cat_boundaries=0 1", "cat_boundaries=0 2", "tree 0: cat_threshold must have 2 entries"),
        (
            "threshold=0.5 0\n",
            "threshold=0.5 7\n",
            "tree 0: threshold of a categorical node must be from 0 to 0",
        ),
        (
            "threshold=0.5 0\n",
            "threshold=0.5 1\n",
            "tree 0: threshold of a categorical node must be from 0 to 0",
        ),
        ("Tree=1\n", "Tree=2\n", "tree 1 does not start where tree_sizes says"),
    ],
)
def test_a_damaged_text_is_refused_with_the_place(old, new, reason):
    damaged = sized(TEXT).replace(old, new, 1)
    if "Tree=" not in new:
        damaged = sized(damaged) if "end of trees" in damaged else damaged

    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message follows
        lightgbm_text.parse(damaged)
    assert str(error.value) == reason


@pytest.mark.parametrize(
    ("boundaries", "reason"),
    [
        ("0 2 1", "tree 0: cat_boundaries must have 3 ascending entries from 0"),
        ("0 1 2", "tree 0: cat_threshold must have 2 entries"),
    ],
)
def test_boundaries_of_two_category_sets_that_do_not_fit_are_refused(boundaries, reason):
    damaged = TWO_CATEGORIES.replace("cat_boundaries=0 1", f"cat_boundaries={boundaries}")

    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message follows
        lightgbm_text.parse(sized(damaged))
    assert str(error.value) == reason


def test_a_number_of_trees_other_than_listed_is_refused():
    with pytest.raises(ValueError, match="it has 2 trees: tree_sizes lists 1"):
        lightgbm_text.parse(re.sub(r"tree_sizes=.*", "tree_sizes=300", TEXT))


@given(st.integers(0, len(TEXT) - len("end of trees\n\npandas_categorical:null\n") - 1))
def test_every_beginning_of_a_text_is_refused(length):
    with pytest.raises(ValueError, match=r"first line|incomplete"):
        lightgbm_text.parse(sized(TEXT)[:length])


def text(value: bytes) -> bytes:
    return b"L" + struct.pack(">q", len(value)) + value


DOCUMENT = b"".join(
    [
        b"{",
        text(b"learner") + b"{" + text(b"name") + b"S" + text(b"gbtree") + b"}",
        text(b"typed") + b"[$d#" + b"L" + struct.pack(">q", 2) + struct.pack(">ff", 1.0, 2.0),
        text(b"counted") + b"[#i\x03ZTF",
        text(b"open") + b"[i\x01U\x02I\x00\x03l\x00\x00\x00\x04D" + struct.pack(">d", 1.5) + b"]",
        b"}",
    ]
)


def test_a_complete_document_is_decoded():
    found = ubjson.decode(DOCUMENT)

    assert found["typed"].tolist() == [1.0, 2.0]
    assert {name: found[name] for name in ("learner", "counted", "open")} == {
        "learner": {"name": "gbtree"},
        "counted": [None, True, False],
        "open": [1, 2, 3, 4, 1.5],
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"Hi\x031.5", "1.5"),
        (b"Si\x00", ""),
        (b"[[i\x01][]]", [[1], []]),
        (b"[" * 63 + b"]" * 63, functools.reduce(lambda inner, _: [inner], range(62), [])),
        (b"[$S#i\x02i\x01xi\x01y", ["x", "y"]),
        (b"[$[#i\x02i\x01]]", [[1], []]),
        (b"[#i\x00", []),
        (b"{#i\x00", {}),
        (b"{#i\x02i\x01xi\x01i\x01y{}", {"x": 1, "y": {}}),
        (b"{$i#i\x02i\x01x\x01i\x01y\x02", {"x": 1, "y": 2}),
        (b"{$[#i\x01i\x01x]", {"x": []}),
    ],
)
def test_every_form_of_a_value_is_decoded(data, expected):
    assert ubjson.decode(b"{i\x01a" + data + b"}") == {"a": expected}


@given(st.integers(0, len(DOCUMENT) - 1))
def test_every_beginning_of_a_document_is_refused(length):
    with pytest.raises(ValueError, match=r"incomplete|first byte|followed by a count"):
        ubjson.decode(DOCUMENT[:length])


@given(st.binary(max_size=60))
def test_any_bytes_are_accepted_or_refused_with_the_place(data):
    try:
        ubjson.decode(b"{" + data)
    except ValueError as error:
        assert "byte " in str(error)  # noqa: PT017 - most inputs are refused


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "the first byte must be '{'"),
        (b"{}x", "byte 2: the document ends, but the file does not"),
        (b"{i\x01ax}", "byte 4: b'x' is no type"),
        (b"{i\x01a[$d]}", "byte 7: a type must be followed by a count"),
        (b"{i\xffa", "byte 3: a length is -1"),
        (b"{i\x01\xff", "byte 3: the text is not UTF-8"),
        (b"{d", "byte 1: b'd' is no type of a length"),
        (b"{i\x01a[$Z#L\x7f" + b"\xff" * 7, "byte 17: b'Z' is no type of several values"),
        (
            b"{i\x01a[$d#L\x7f" + b"\xff" * 7,
            "byte 17: 36893488147419103228 bytes must follow: the file is incomplete",
        ),
        (b"{i\x01a" * 100, "byte 256: b'{' is no type"),
        (b"{i\x01a" + b"[" * 64, "byte 67: b'[' is no type"),
    ],
)
def test_an_invalid_document_is_refused_with_the_place(data, reason):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message follows
        ubjson.decode(data)
    assert str(error.value) == reason


# A categorical node with a leaf on its left and a node with two leaves on its right.
TREE = {
    "tree_param": {"num_nodes": "5", "num_feature": "2", "size_leaf_vector": "1"},
    "left_children": [1, -1, 3, -1, -1],
    "right_children": [2, -1, 4, -1, -1],
    "parents": [2147483647, 0, 0, 2, 2],
    "split_indices": [1, 0, 0, 0, 0],
    "split_conditions": [0.0, 0.5, 1.5, 0.1, 0.2],
    "split_type": [1, 0, 0, 0, 0],
    "default_left": [0, 0, 1, 0, 0],
    "base_weights": [0.0, 0.0, 0.0, 0.0, 0.0],
    "categories_nodes": [0],
    "categories_segments": [0],
    "categories_sizes": [2],
    "categories": [1, 3],
}
LINEAR = {"name": "gblinear", "model": {"weights": [1.0, 2.0, 3.0]}}


# The same tree with two values per leaf, whose right child is its place among the leaves.
OF_TWO_TARGETS = {
    **TREE,
    "tree_param": {"num_nodes": "5", "num_feature": "2", "size_leaf_vector": "2"},
    "right_children": [2, 0, 4, 1, 2],
    "base_weights": [0.0] * 10,
    "leaf_weights": [0.0] * 6,
}
TWO_CATEGORICAL_NODES = {
    "split_type": [1, 0, 1, 0, 0],
    "categories_nodes": [0, 2],
    "categories_segments": [0, 1],
    "categories_sizes": [1, 1],
}


def without(fields: dict, *names: str) -> dict:
    return {name: value for name, value in fields.items() if name not in names}


def booster(tree: dict = TREE, **changes) -> dict:
    inner = {"trees": [copy.deepcopy(tree)], "tree_info": [0], "iteration_indptr": [0, 1]}
    return {"name": "gbtree", "model": {**inner, **changes}}


def model(**changes) -> dict:
    trees = booster()
    parameters = {"num_feature": "2", "num_class": "0", "num_target": "1"}
    learner = {"learner_model_param": parameters, "gradient_booster": trees, **changes}
    return {"learner": learner}


@pytest.mark.parametrize(
    "sound",
    [
        booster(),
        {"name": "dart", "weight_drop": [1.0], "gbtree": booster()},
        LINEAR,
        # the first iteration has no tree
        booster(iteration_indptr=[0, 0, 1]),
        booster({**TREE, "tree_param": {**TREE["tree_param"], "size_leaf_vector": "0"}}),
        booster(OF_TWO_TARGETS),
        booster({**TREE, "categories": [0, 3]}),
        booster({**TREE, **TWO_CATEGORICAL_NODES}),
        booster(
            without(
                TREE,
                "split_type",
                "categories_nodes",
                "categories_segments",
                "categories_sizes",
                "categories",
            )
        ),
    ],
)
def test_trees_and_linear_models_of_xgboost_are_accepted(sound):
    xgboost_trees.check(model(gradient_booster=sound))


@pytest.mark.parametrize(
    ("parameters", "groups"),
    [
        ({"num_feature": "2"}, 1),
        ({"num_feature": "2", "num_class": "3", "num_target": "1"}, 3),
        ({"num_feature": "2", "num_class": "0", "num_target": "2"}, 2),
    ],
)
def test_a_model_has_trees_or_weights_for_each_class_or_target(parameters, groups):
    linear = {"name": "gblinear", "model": {"weights": [1.0] * 3 * groups}}
    for sound in (booster(tree_info=[groups - 1]), linear):
        xgboost_trees.check(model(learner_model_param=parameters, gradient_booster=sound))

    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message follows
        xgboost_trees.check(
            model(learner_model_param=parameters, gradient_booster=booster(tree_info=[groups]))
        )
    assert str(error.value) == f"tree_info must have 1 numbers from 0 to {groups - 1}"


def test_an_empty_set_of_categories_is_left_to_xgboost_which_refuses_it_itself():
    xgboost_trees.check(model(gradient_booster=booster({**TREE, "categories_sizes": [0]})))


def test_leaves_of_several_targets_without_weights_are_refused():
    """XGBoost ends the process on them."""
    old = {**without(OF_TWO_TARGETS, "leaf_weights"), "right_children": [2, -1, 4, -1, -1]}

    with pytest.raises(ValueError, match="tree 0: leaf_weights must have 6 entries"):
        xgboost_trees.check(model(gradient_booster=booster(old)))


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (
            "right_children",
            [2, 0, 4, 1, 3],
            "tree 0: left_children and right_children do not form a tree",
        ),
        (
            "right_children",
            [2, -2, 4, 1, 2],
            "tree 0: left_children and right_children do not form a tree",
        ),
        # XGBoost ends the process on these
        (
            "right_children",
            [2, -1, 4, -1, -1],
            "tree 0: left_children and right_children do not form a tree",
        ),
        ("leaf_weights", [], "tree 0: leaf_weights must have 6 entries"),
        ("leaf_weights", [0.0] * 3, "tree 0: leaf_weights must have 6 entries"),
        ("base_weights", [0.0] * 5, "tree 0: base_weights must have 10 entries"),
        (
            "tree_param",
            TREE["tree_param"],
            "tree 0: base_weights must have 5 entries",
        ),
    ],
)
def test_a_damaged_tree_of_several_targets_is_refused(field, value, reason):
    damaged = booster({**OF_TWO_TARGETS, field: value})

    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message follows
        xgboost_trees.check(model(gradient_booster=damaged))
    assert str(error.value) == reason


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("left_children", [1, -1, 3, -1], "tree 0: left_children must have 5 entries"),
        (
            "left_children",
            [1, -1, 9, -1, -1],
            "tree 0: left_children and right_children do not form a tree",
        ),
        (
            "left_children",
            [1, -1, 0, -1, -1],
            "tree 0: left_children and right_children do not form a tree",
        ),
        (
            "left_children",
            [2, -1, 3, -1, -1],
            "tree 0: left_children and right_children do not form a tree",
        ),
        (
            "right_children",
            [2, 0, 4, 1, 2],
            "tree 0: left_children and right_children do not form a tree",
        ),
        (
            "right_children",
            [2, 1, 4, -1, -1],
            "tree 0: left_children and right_children do not form a tree",
        ),
        *(
            (name, [1.0, 2.0, 3.0, 4.0, 5.0], f"tree 0: {name} must be a list of integers")
            for name in ("left_children", "right_children", "parents")
        ),
        ("left_children", {}, "tree 0: left_children must be a list of numbers"),
        ("left_children", "text", "tree 0: left_children must be a list of numbers"),
        ("left_children", [[1], [2, 3]], "tree 0: left_children must be a list of numbers"),
        (
            "parents",
            [2147483647, 0, 0, 2, 0],
            "tree 0: parents must be those of left_children and right_children",
        ),
        (
            "parents",
            [0, 0, 0, 2, 2],
            "tree 0: parents must be those of left_children and right_children",
        ),
        ("split_indices", [2, 0, 0, 0, 0], "tree 0: split_indices must be from 0 to 1"),
        ("base_weights", [0.0], "tree 0: base_weights must have 5 entries"),
        ("base_weights", ["a"] * 5, "tree 0: base_weights must be a list of numbers"),
        ("base_weights", [[0.0]] * 5, "tree 0: base_weights must be a list of numbers"),
        ("split_type", [2, 0, 0, 0, 0], "tree 0: split_type must have 5 entries of 0 or 1"),
        (
            "split_type",
            [0, 0, 0, 0, 0],
            "tree 0: categories_nodes must be the nodes whose split_type is 1",
        ),
        (
            "categories_nodes",
            [2],
            "tree 0: categories_nodes must be the nodes whose split_type is 1",
        ),
        (
            "categories_sizes",
            [],
            "tree 0: categories_segments and categories_sizes must have 1 entries",
        ),
        ("categories_sizes", [3], "tree 0: categories_segments must end by 2"),
        ("categories_segments", [-1], "tree 0: categories_segments must end by 2"),
        ("categories_segments", [1], "tree 0: categories_segments must end by 2"),
        ("categories", [-1, 3], "tree 0: categories must be from 0 to 16777215"),
        ("tree_param", {"num_nodes": "0"}, "tree 0: num_nodes is 0: must be from 1 to 2147483647"),
        ("tree_param", {"num_nodes": float("inf")}, "tree 0: num_nodes must be an integer"),
        ("tree_param", {"num_nodes": [1]}, "tree 0: num_nodes must be an integer"),
        (
            "tree_param",
            {"num_nodes": 2**31},
            "tree 0: num_nodes is 2147483648: must be from 1 to 2147483647",
        ),
        ("tree_param", {"num_nodes": "x"}, "tree 0: num_nodes must be an integer"),
        (
            "tree_param",
            {"num_nodes": "5", "num_feature": "3"},
            "tree 0: num_feature must be 2, as for the whole model",
        ),
        (
            "tree_param",
            {"num_nodes": "5", "num_feature": "0"},
            "tree 0: num_feature must be 2, as for the whole model",
        ),
        ("tree_param", None, "tree 0: tree_param is missing"),
        (
            "tree_param",
            {"num_nodes": "5", "num_feature": "2", "size_leaf_vector": "2"},
            "tree 0: base_weights must have 10 entries",
        ),
    ],
)
def test_a_damaged_tree_of_xgboost_is_refused_with_its_field(field, value, reason):
    document = model()
    document["learner"]["gradient_booster"]["model"]["trees"][0][field] = value

    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message follows
        xgboost_trees.check(document)
    assert str(error.value) == reason


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "learner is missing"),
        ({"learner": {}}, "learner_model_param is missing"),
        (model(gradient_booster={"name": "gbtree"}), "model is missing"),
        (
            model(gradient_booster={"name": "gblinear", "model": {"weights": [1.0]}}),
            "weights must have 3 entries",
        ),
        (
            model(gradient_booster={"name": "gbtree", "model": {"trees": [TREE]}}),
            "tree_info must have 1 numbers from 0 to 0",
        ),
        *(
            (
                model(gradient_booster=booster(iteration_indptr=ends)),
                "iteration_indptr must ascend from 0 to 1",
            )
            for ends in ([0, 2], [1, 1], [0, 2, 1])
        ),
        (
            model(gradient_booster={"name": "dart", "weight_drop": [], "gbtree": booster()}),
            "weight_drop must have 1 entries",
        ),
    ],
)
def test_a_damaged_model_of_xgboost_is_refused_with_its_field(document, reason):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message follows
        xgboost_trees.check(document)
    assert str(error.value) == reason
