"""The inputs of a model of tables: one matrix, or one input per column.

    a file's Features, declared inputs -> chosen -> Matrix | Columns -> table() per request

A model whose columns are all numbers has one matrix as its input. A model with columns of text has
one input per column, because a tensor has one datatype. Declared inputs may choose either form.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage_runtime.backends import text
from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.tables import INPUT_NAME
from moorage_runtime.backends.tables.conversion import converted
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.tensors import NUMBERS, NUMPY_DTYPE, Datatype, Tensor, TensorSpec

# Any, because type checks run without the libraries of this extra.
pandas: Any = importlib.import_module("pandas")

_NO_EXAMPLES: Final[Mapping[str, Any]] = MappingProxyType({})
_COLUMN_SHAPES: Final = ((-1,), (-1, 1))


class Features(msgspec.Struct, frozen=True):
    """What a model's file says about its columns.

    Attributes:
        count: Number of columns; None if the file does not say.
        names: Names of the columns in order; empty if the file has none.
        columns: One input per column; None if one matrix of numbers is enough.
        datatype: Datatype of the matrix.
        categories: Column to its categories, for libraries that need pandas' categorical type.
        examples: Column to a value that the model accepts; by default 0 or empty text. A column
            without a name is called by its place.
        coded: Columns of text that may also be declared as whole numbers or booleans, which the
            library itself writes as text.
        certain: The file says which columns are text, so that a declaration cannot differ.
        framed: The library needs the names of the columns of a matrix.
    """

    count: int | None
    names: tuple[str, ...] = ()
    columns: tuple[TensorSpec, ...] | None = None
    datatype: Datatype = Datatype.FP64
    categories: Mapping[str, Sequence[Any]] = _NO_EXAMPLES
    examples: Mapping[str, Any] = _NO_EXAMPLES
    coded: frozenset[str] = frozenset()
    certain: bool = True
    framed: bool = False


class Matrix:
    """One input: an array, or a data frame if the columns have names.

    Args:
        spec: The input.
        names: Names of the columns; empty for a plain array.
        examples: A value of each column that the model accepts, or None; empty without columns.
    """

    def __init__(
        self, spec: TensorSpec, names: Sequence[str] = (), examples: Sequence[Any] = ()
    ) -> None:
        self.specs = (spec,)
        self._names = list(names)
        self._examples = examples

    def table(self, inputs: Sequence[Tensor]) -> Any:
        """The request's rows: an array, or a data frame if the columns have names.

        Raises:
            InvalidRequest: A number does not fit the datatype of the matrix.
        """
        array = _values(inputs[0], self.specs[0].datatype)
        return pandas.DataFrame(array, columns=self._names) if self._names else array

    def example(self, number: int = 0) -> tuple[Tensor, ...]:
        """One row that the model accepts, as far as its file says, otherwise with this number."""
        spec = self.specs[0]
        if not self._examples:
            shape = tuple(max(size, 1) for size in spec.shape)
            return (_filled(spec, shape, None, number),)
        columns = [_filled(spec, (1, 1), value, number).array for value in self._examples]
        return (Tensor(spec.name, spec.datatype, np.concatenate(columns, axis=1)),)


class Columns:
    """One input per column: a data frame, or an array for a model that knows no names.

    Args:
        specs: The inputs, in the order of the columns.
        features: Categories and examples of the columns.
    """

    def __init__(self, specs: Sequence[TensorSpec], features: Features) -> None:
        # [rows, 1] is accepted beside [rows], because clients of data frames send both
        self.specs = tuple(msgspec.structs.replace(spec, any_shape=True) for spec in specs)
        self._features = features
        self._codes = {
            name: {value: code for code, value in enumerate(values)}
            for name, values in features.categories.items()
        }
        # without a known number of columns, the model may select them by name
        self._is_array = not features.names and features.count is not None

    def table(self, inputs: Sequence[Tensor]) -> Any:
        """The request's rows.

        Raises:
            InvalidRequest: An input is not a column, the columns have different lengths, or a
                number does not fit its column.
        """
        given = {tensor.name: tensor for tensor in inputs}
        columns = {spec.name: self._column(given[spec.name], spec) for spec in self.specs}
        self._check_lengths(given)
        if self._is_array:
            return np.column_stack(list(columns.values()))
        return pandas.DataFrame(columns)

    def example(self, number: int = 0) -> tuple[Tensor, ...]:
        """One row that the model accepts, as far as its file says, otherwise with this number."""
        examples = self._features.examples
        return tuple(_filled(spec, (1,), examples.get(spec.name), number) for spec in self.specs)

    def _column(self, tensor: Tensor, spec: TensorSpec) -> Any:
        shape = tensor.shape
        if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
            raise InvalidRequest(
                f"input '{tensor.name}' has shape {list(shape)}: must be [-1] or [-1, 1] "
                "(-1 is any size), one value per row"
            )
        codes = self._codes.get(spec.name)
        if codes is None:
            return _values(tensor, spec.datatype).reshape(-1)
        # numbers are compared as they are: 2.5 is not the category 2
        given = text.to_text(tensor.array) if tensor.datatype is Datatype.BYTES else tensor.array
        # a value that is not a category is a missing value for the library
        found = [codes.get(value, -1) for value in given.reshape(-1).tolist()]
        return pandas.Categorical.from_codes(found, self._features.categories[spec.name])

    def _check_lengths(self, given: Mapping[str, Tensor]) -> None:
        first = self.specs[0].name
        rows = given[first].shape[0]
        for spec in self.specs:
            found = given[spec.name].shape
            if found[0] != rows:
                raise InvalidRequest(
                    f"input '{spec.name}' has shape {list(found)}: must have {rows} rows, as "
                    f"input '{first}'"
                )


Layout = Matrix | Columns


def chosen(source: ModelSource, features: Features) -> Layout:
    """The layout that is declared, otherwise the one that the file suggests.

    Raises:
        InvalidConfig: The declaration contradicts the file, or nothing says how many columns the
            model has.
    """
    if source.inputs is None:
        return _undeclared(source, features)
    for index, spec in enumerate(source.inputs):
        if spec.datatype is Datatype.BF16:
            raise InvalidConfig(
                f"{source.declared_in}: inputs[{index}].datatype is BF16: must be another number, "
                "BOOL or BYTES"
            )
    if len(source.inputs) != 1 or source.inputs[0].name in features.names:
        return _declared_columns(source, features, source.inputs)
    return _declared_matrix(source, features, source.inputs[0])


def with_spaces(source: ModelSource, names: Sequence[str]) -> tuple[str, ...]:
    """The names as declared, where LightGBM has written "_" for each space of a name."""
    declared = {spec.name.replace(" ", "_"): spec.name for spec in source.inputs or ()}
    return tuple(declared.get(name, name) for name in names)


def _undeclared(source: ModelSource, features: Features) -> Layout:
    if features.columns is not None:
        return Columns(features.columns, features)
    if features.count is None:
        raise InvalidConfig(
            f"{source.path.name}: the number of features of the model is unknown: fit it before "
            "you save it, or declare its inputs in model.yaml"
        )
    shape = (-1, features.count)
    spec = TensorSpec(INPUT_NAME, features.datatype, shape, any_number=True)
    names = features.names if features.framed else ()
    return Matrix(spec, names, _examples(features, spec.datatype))


def _declared_matrix(source: ModelSource, features: Features, spec: TensorSpec) -> Layout:
    is_text = spec.datatype is Datatype.BYTES
    needs_columns = features.columns is not None and any(
        column.datatype is Datatype.BYTES for column in features.columns
    )
    if needs_columns or (is_text and features.certain):
        expected = "one input per column" if needs_columns else "a matrix of numbers"
        raise InvalidConfig(
            f"{source.declared_in}: inputs has one tensor, '{spec.name}' of {spec.datatype}: must "
            f"be {expected}, as in {source.path.name}"
        )
    count = features.count
    if count is not None and (len(spec.shape) != 2 or spec.shape[1] not in (-1, count)):
        raise InvalidConfig(
            f"{source.declared_in}: inputs[0].shape is {list(spec.shape)}: must be [-1, {count}], "
            f"because {source.path.name} has {count} features"
        )
    shape = spec.shape if count is None else (spec.shape[0], count)
    has_columns = len(shape) == 2
    return Matrix(
        msgspec.structs.replace(spec, shape=shape, any_number=not is_text),
        features.names if features.framed and has_columns else (),
        _examples(features, spec.datatype) if has_columns else (),
    )


def _examples(features: Features, datatype: Datatype) -> list[Any]:
    """An example for each column of a matrix; None where the file has none of its datatype.

    Empty if it has none at all: a hashed text has a million columns.
    """
    names = features.names or tuple(map(str, range(features.count or 0)))
    is_text = datatype is Datatype.BYTES
    found = [features.examples.get(name) for name in names]
    fitting = [value if isinstance(value, str) is is_text else None for value in found]
    return fitting if any(value is not None for value in fitting) else []


def _declared_columns(
    source: ModelSource, features: Features, specs: tuple[TensorSpec, ...]
) -> Columns:
    where = source.declared_in
    needed = [spec.name for spec in features.columns or ()] or list(features.names)
    # a signature also lists the columns that the estimator drops
    known = list(features.names) or needed
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise InvalidConfig(f"{where}: inputs has duplicate names: name each column once")
    for index, spec in enumerate(specs):
        if known and spec.name not in known:
            raise InvalidConfig(
                f"{where}: inputs[{index}].name is '{spec.name}': must be a column of "
                f"{source.path.name}: {', '.join(known)}"
            )
        if spec.shape not in _COLUMN_SHAPES:
            raise InvalidConfig(
                f"{where}: inputs[{index}].shape is {list(spec.shape)}: must be [-1], one value "
                "per row"
            )
    missing = [name for name in needed if name not in names]
    if missing or (not needed and features.count not in (None, len(specs))):
        raise InvalidConfig(
            f"{where}: inputs has {len(specs)} tensors: must have "
            f"{len(needed) or features.count}, one per column of {source.path.name}"
            + (f"; '{missing[0]}' is missing" if missing else "")
        )
    _check_kinds(source, features, specs)
    if not known:
        # columns without names are called by their places
        examples = {
            name: features.examples[str(place)]
            for place, name in enumerate(names)
            if str(place) in features.examples
        }
        features = msgspec.structs.replace(features, examples=examples)
    ordered = sorted(specs, key=lambda spec: known.index(spec.name)) if known else specs
    accepting = [
        msgspec.structs.replace(spec, any_number=spec.datatype in NUMBERS, optional=False)
        for spec in ordered
    ]
    return Columns(accepting, features)


def _check_kinds(source: ModelSource, features: Features, specs: tuple[TensorSpec, ...]) -> None:
    """Refuse numbers for a column of text, and text for one of numbers."""
    known = {spec.name: spec.datatype for spec in features.columns or ()}
    for index, spec in enumerate(specs):
        datatype = known.get(spec.name, features.datatype)
        is_text = datatype is Datatype.BYTES
        if is_text == (spec.datatype is Datatype.BYTES) or not (is_text or features.certain):
            continue
        if spec.name in features.coded and NUMPY_DTYPE[spec.datatype].kind in "biu":
            continue
        allowed = str(datatype) if is_text else f"a number, such as {datatype}"
        if spec.name in features.coded:
            allowed += ", BOOL or a type of whole numbers"
        raise InvalidConfig(
            f"{source.declared_in}: inputs[{index}].datatype is {spec.datatype}: must be "
            f"{allowed}, because of column '{spec.name}' of {source.path.name}"
        )


def _values(tensor: Tensor, datatype: Datatype) -> NDArray[Any]:
    """Text, or numbers of the declared datatype."""
    if datatype is Datatype.BYTES:
        return text.to_text(tensor.array)
    return converted(tensor, datatype)


def _filled(spec: TensorSpec, shape: tuple[int, ...], value: Any, number: int) -> Tensor:
    if spec.datatype is Datatype.BYTES:
        element = str(value if value is not None else "").encode()
        return Tensor(spec.name, spec.datatype, np.full(shape, element, np.object_))
    array = np.full(shape, number if value is None else value, NUMPY_DTYPE[spec.datatype])
    return Tensor(spec.name, spec.datatype, array)
