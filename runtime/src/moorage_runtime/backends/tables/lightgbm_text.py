"""Checks LightGBM's text format, whose own reader ends the process on a damaged file.

Pure. A file is a header of ``key=value`` lines, one block per tree and a trailer::

    tree                    Tree=0                  end of trees
    max_feature_idx=2       num_leaves=3
    tree_sizes=457 461      left_child=1 -1         (and other arrays)

A tree with n leaves has n - 1 nodes. A child is the number of a node, which is greater than its
parent's, or ``-1 - leaf``. Source: LightGBM, src/io/tree.cpp (Tree::ToString, Tree::Tree).
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

_START: Final = "tree\n"
# Lines of the header without a value.
_FLAGS: Final = ("tree", "average_output")
_END: Final = "end of trees"
_PARAMETERS: Final = "parameters:"
_END_OF_PARAMETERS: Final = "end of parameters"
_NUMERIC: Final = "["
_UNUSED: Final = "none"
_CATEGORICAL_NODE: Final = 1
_OF_NODES: Final = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
# Not used for answers, but LightGBM ends the process if they are not numbers.
_ALSO_OF_NODES: Final = ("split_gain", "internal_value", "internal_weight", "internal_count")
_ALSO_OF_LEAVES: Final = ("leaf_weight", "leaf_count")
_NUMBER: Final = re.compile(
    r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|[-+]?(nan|inf|infinity)", re.IGNORECASE
)
# Python also reads 1_0 and other digits, which LightGBM reads as another number.
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}")
_LINE: Final = re.compile(r"(\w+)=(.*)")
_INT32: Final = 1 << 31


class ModelText(msgspec.Struct, frozen=True):
    """What the header says.

    Attributes:
        categorical: Places of the categorical columns that the model uses.
    """

    categorical: tuple[int, ...]


def parse(text: str) -> ModelText:
    """Check a file.

    Raises:
        ValueError: It is not a complete model; the message says what is wrong.
    """
    if not text.startswith(_START):
        raise ValueError("the first line must be 'tree'")
    trees, end, trailer = text.partition(f"\n{_END}")
    if not end:
        raise ValueError(f"the line '{_END}' is missing: the file is incomplete")
    _, parameters, rest = trailer.partition(f"\n{_PARAMETERS}")
    if parameters and f"\n{_END_OF_PARAMETERS}" not in rest:
        raise ValueError(f"the line '{_END_OF_PARAMETERS}' is missing: the file is incomplete")
    head, *blocks = trees.split("\nTree=")
    header = _fields(head)
    last = _integer(header, "max_feature_idx")
    for name in ("num_class", "num_tree_per_iteration", "label_index"):
        _integer(header, name)
    infos = header.get("feature_infos", "").split()
    names = header.get("feature_names", "").split()
    for field, found in (("feature_infos", infos), ("feature_names", names)):
        if len(found) != last + 1:
            raise ValueError(f"{field} has {len(found)} entries: must have {last + 1}")
    if len(header.get("tree_sizes", "").split()) != len(blocks):
        raise ValueError(
            f"it has {len(blocks)} trees: tree_sizes lists "
            f"{len(header.get('tree_sizes', '').split())}"
        )
    _check_sizes(text, header)
    for index, block in enumerate(blocks):
        _check_tree(index, f"Tree={block}", last)
    is_categorical = (not info.startswith(_NUMERIC) and info != _UNUSED for info in infos)
    return ModelText(tuple(place for place, found in enumerate(is_categorical) if found))


def _check_sizes(text: str, header: Mapping[str, str]) -> None:
    """Each tree starts where the sizes of the trees before it end."""
    data = text.encode()
    start = data.find(b"\nTree=0\n") + 1
    for index, size in enumerate(_integers(header, "tree_sizes")):
        if not start or not data.startswith(b"Tree=%d\n" % index, start):
            raise ValueError(f"tree {index} does not start where tree_sizes says")
        start += int(size)


def _check_tree(index: int, block: str, last_feature: int) -> None:
    where = f"tree {index}: "
    try:
        tree = _fields(block)
        leaves = _integer(tree, "num_leaves")
        if leaves < 1:
            raise ValueError(f"num_leaves is {leaves}")  # noqa: TRY301 - adds the tree below
        if _floats(tree, "leaf_value").size != leaves:
            raise ValueError(f"leaf_value must have {leaves} entries")  # noqa: TRY301
        for names, size in ((_ALSO_OF_NODES, leaves - 1), (_ALSO_OF_LEAVES, leaves)):
            for name in names:
                if tree.get(name) and _floats(tree, name).size != size:
                    raise ValueError(f"{name} must have {size} entries")  # noqa: TRY301
        for name in ("is_linear", "shrinkage"):
            if name in tree and _floats(tree, name).size != 1:
                raise ValueError(f"{name} must be a number")  # noqa: TRY301
        if leaves > 1:
            _check_nodes(tree, leaves - 1, last_feature)
    except ValueError as error:
        raise ValueError(f"{where}{error}") from error


def _check_nodes(tree: Mapping[str, str], nodes: int, last_feature: int) -> None:
    for name in _OF_NODES:
        if len(tree.get(name, "").split()) != nodes:
            raise ValueError(f"{name} must have {nodes} entries")
    features = _integers(tree, "split_feature")
    if features.min() < 0 or features.max() > last_feature:
        raise ValueError(f"split_feature must be from 0 to {last_feature}")
    left, right = _integers(tree, "left_child"), _integers(tree, "right_child")
    children = np.concatenate([left, right])
    expected = np.concatenate([np.arange(-nodes - 1, 0), np.arange(1, nodes)])
    parents = np.tile(np.arange(nodes), 2)
    if not np.array_equal(np.sort(children), expected) or np.any(
        (children >= 0) & (children <= parents)
    ):
        raise ValueError("left_child and right_child do not form a tree")
    _check_categories(tree, _integers(tree, "decision_type"))


def _check_categories(tree: Mapping[str, str], decisions: NDArray[np.int64]) -> None:
    count = _integer(tree, "num_cat")
    if count < 0:
        raise ValueError(f"num_cat is {count}")
    thresholds = _floats(tree, "threshold")[(decisions & _CATEGORICAL_NODE) == 1]
    if not count:
        if thresholds.size:
            raise ValueError("num_cat is 0, but a node is categorical")
        return
    bounds = _integers(tree, "cat_boundaries")
    if bounds.size != count + 1 or bounds[0] != 0 or np.any(np.diff(bounds) < 0):
        raise ValueError(f"cat_boundaries must have {count + 1} ascending entries from 0")
    if len(tree.get("cat_threshold", "").split()) != bounds[-1]:
        raise ValueError(f"cat_threshold must have {bounds[-1]} entries")
    if not np.all((thresholds >= 0) & (thresholds < count)):
        raise ValueError(f"threshold of a categorical node must be from 0 to {count - 1}")


def _fields(block: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in block.split("\n"):
        found = _LINE.fullmatch(line)
        if found:
            fields[found[1]] = found[2]
        elif line.strip() and line not in _FLAGS:
            raise ValueError(f"the line '{line[:40]}' must be KEY=VALUE")
    return fields


def _integer(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "").strip()
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{name} is '{text[:20]}': must be an integer")
    return int(text)


def _integers(fields: Mapping[str, str], name: str) -> NDArray[np.int64]:
    words = fields.get(name, "").split()
    if not all(map(_INTEGER.fullmatch, words)):
        raise ValueError(f"{name} must contain integers")
    found = np.array([int(word) for word in words], np.int64)
    if found.size and not -_INT32 <= found.min() <= found.max() < _INT32:
        raise ValueError(f"{name} must contain integers of 32 bits")
    return found


def _floats(fields: Mapping[str, str], name: str) -> NDArray[np.float64]:
    words = fields.get(name, "").split()
    if not all(map(_NUMBER.fullmatch, words)):
        raise ValueError(f"{name} must contain numbers")
    return np.array([float(word) for word in words], np.float64)
