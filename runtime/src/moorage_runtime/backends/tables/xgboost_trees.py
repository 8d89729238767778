"""Checks the trees of an XGBoost model: XGBoost follows the numbers of a damaged file anywhere.

Pure. A node has a left and a right child, -1 for a leaf. Source: XGBoost, "Introduction to Model
IO" and doc/model.schema.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

_LEAF: Final = -1
# The parent of the root.
_NO_PARENT: Final = (-1, 2**31 - 1)
# One number per node.
_OF_NODES: Final = (
    "default_left",
    "left_children",
    "right_children",
    "parents",
    "split_conditions",
    "split_indices",
)
_LEAST: Final[Mapping[str, int]] = {"num_feature": 1, "num_class": 0, "num_target": 0}
_MOST_CATEGORIES: Final = 1 << 24


def check(document: Any) -> None:
    """Check a decoded model.

    Raises:
        ValueError: A field is missing or invalid; the message names it.
    """
    learner = _field(document, "learner", dict)
    parameters = _field(learner, "learner_model_param", dict)
    features, classes, targets = (
        _number(parameters, name, least) for name, least in _LEAST.items()
    )
    groups = max(classes, targets, 1)
    booster = _field(learner, "gradient_booster", dict)
    if _field(booster, "name", str) == "gblinear":
        weights = _array(_field(booster, "model", dict), "weights")
        if weights.size != (features + 1) * groups:
            raise ValueError(f"weights must have {(features + 1) * groups} entries")
        return
    inner = _field(booster, "gbtree", dict) if "gbtree" in booster else booster
    model = _field(inner, "model", dict)
    trees = cast("list[Any]", _field(model, "trees", list))
    info = _array(model, "tree_info")
    if info.size != len(trees) or not _within(info, 0, groups):
        raise ValueError(f"tree_info must have {len(trees)} numbers from 0 to {groups - 1}")
    ends = _array(model, "iteration_indptr")
    if ends.size and (ends[0] != 0 or ends[-1] != len(trees) or np.any(np.diff(ends) < 0)):
        raise ValueError(f"iteration_indptr must ascend from 0 to {len(trees)}")
    if "weight_drop" in booster and _array(booster, "weight_drop").size != len(trees):
        raise ValueError(f"weight_drop must have {len(trees)} entries")
    for index, tree in enumerate(trees):
        try:
            _check_tree(tree, features)
        except ValueError as error:
            raise ValueError(f"tree {index}: {error}") from error


def _check_tree(tree: Any, features: int) -> None:
    parameters = _field(tree, "tree_param", dict)
    nodes = _number(parameters, "num_nodes", 1)
    size = _number(parameters, "size_leaf_vector", 0)
    if _number(parameters, "num_feature", 0) != features:
        raise ValueError(f"num_feature must be {features}, as for the whole model")
    for name in _OF_NODES:
        if _array(tree, name).size != nodes:
            raise ValueError(f"{name} must have {nodes} entries")
    left, right = _integers(tree, "left_children"), _integers(tree, "right_children")
    inner = left != _LEAF
    children = np.concatenate([left[inner], right[inner]])
    leaves = int(np.count_nonzero(~inner))
    _check_weights(tree, nodes, leaves, size)
    # with several targets per leaf, this is the place of the leaf in leaf_weights
    places = right[~inner]
    are_leaves = _within(places, 0, leaves) if size > 1 else np.all(places == _LEAF)
    is_tree = np.unique(children).size == children.size and are_leaves
    if not (is_tree and _within(children, 1, nodes)):
        raise ValueError("left_children and right_children do not form a tree")
    parents = _integers(tree, "parents")
    expected = np.tile(np.flatnonzero(inner), 2)
    if parents[0] not in _NO_PARENT or not np.array_equal(parents[children], expected):
        raise ValueError("parents must be those of left_children and right_children")
    if not _within(_array(tree, "split_indices")[inner], 0, features):
        raise ValueError(f"split_indices must be from 0 to {features - 1}")
    _check_categories(tree, inner)


def _check_weights(tree: Any, nodes: int, leaves: int, size: int) -> None:
    """The values of nodes and leaves, of which there are several with several targets."""
    if size <= 1:
        if _array(tree, "base_weights").size != nodes:
            raise ValueError(f"base_weights must have {nodes} entries")
        return
    for name, count in (("base_weights", nodes), ("leaf_weights", leaves)):
        if _array(tree, name).size != count * size:
            raise ValueError(f"{name} must have {count * size} entries")


def _check_categories(tree: Any, inner: NDArray[np.bool_]) -> None:
    kinds = _array(tree, "split_type")
    if kinds.size and (kinds.size != inner.size or not _within(kinds, 0, 2)):
        raise ValueError(f"split_type must have {inner.size} entries of 0 or 1")
    categorical = np.flatnonzero(inner & (kinds == 1)) if kinds.size else np.empty(0)
    nodes, starts = _array(tree, "categories_nodes"), _array(tree, "categories_segments")
    sizes, categories = _array(tree, "categories_sizes"), _array(tree, "categories")
    if not np.array_equal(np.sort(nodes), categorical):
        raise ValueError("categories_nodes must be the nodes whose split_type is 1")
    if starts.size != nodes.size or sizes.size != nodes.size:
        raise ValueError(
            f"categories_segments and categories_sizes must have {nodes.size} entries"
        )
    if not (
        _within(starts, 0, categories.size + 1)
        and _within(sizes, 0, categories.size + 1)
        and _within(starts + sizes, 0, categories.size + 1)
    ):
        raise ValueError(f"categories_segments must end by {categories.size}")
    if not _within(categories, 0, _MOST_CATEGORIES):
        raise ValueError(f"categories must be from 0 to {_MOST_CATEGORIES - 1}")


def _field(value: Any, name: str, kind: type) -> Any:
    found = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        raise ValueError(f"{name} is missing")  # noqa: TRY004 - a file, not an argument
    return found


def _number(parameters: Any, name: str, least: int) -> int:
    """A whole number, which XGBoost writes as text; the least one if it is absent."""
    try:
        found = int(parameters.get(name, least))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be an integer") from error
    if not least <= found < 1 << 31:
        raise ValueError(f"{name} is {found}: must be from {least} to {(1 << 31) - 1}")
    return found


def _array(value: Any, name: str) -> NDArray[Any]:
    """The numbers of a field; none if it is absent."""
    try:
        found: NDArray[Any] = np.asarray(value.get(name, ()))
    except (AttributeError, ValueError) as error:
        raise ValueError(f"{name} must be a list of numbers") from error
    if found.ndim != 1 or (found.size and found.dtype.kind not in "biuf"):
        raise ValueError(f"{name} must be a list of numbers")
    return found


def _integers(value: Any, name: str) -> NDArray[Any]:
    """The numbers of a field that is not empty, as they are used to index others."""
    found = _array(value, name)
    if found.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a list of integers")
    return found


def _within(found: NDArray[Any], least: int, end: int) -> bool:
    return not found.size or bool(found.min() >= least and found.max() < end)
