"""The rules of the static analysis: the effect of each operator on the batch dimension.

Call(node, values of its inputs) -> compute() -> values of its outputs

Only operators that keep rows apart by their definition are listed. Pure.
"""

from collections.abc import Callable, Mapping
from typing import Final

from moorage_runtime.backends.onnx.graph import moves as onnx_moves
from moorage_runtime.backends.onnx.graph import products as onnx_products
from moorage_runtime.backends.onnx.graph.file import TensorData
from moorage_runtime.backends.onnx.graph.values import (
    BATCH,
    FIXED,
    Call,
    Element,
    Mixes,
    Value,
    axis_of,
    besides,
    broadcast,
    fixed,
    refuse,
    single,
)

__all__ = ["BATCH", "Call", "Mixes", "Value", "compute"]

Rule = Callable[[Call], Value | list[Value]]
ML: Final = "ai.onnx.ml"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def compute(call: Call) -> list[Value]:
    """The values of an operator's outputs.

    Raises:
        Mixes: Rows may influence each other, or the operator has no rule.
    """
    node = call.node
    if node.has_graph:
        refuse("control flow is not analyzed")
    rule = RULES.get((node.domain, node.operator))
    given = call.given()
    if all(value.is_fixed for value in given) and node.domain in ("", ML):
        if node.operator in _RANDOM or (not given and rule is None):
            refuse("its result is random or unknown")
        return _of_constants(call, rule)
    if rule is None:
        refuse("it is not known to keep the rows of a batch apart")
    if any(value.counts_rows for value in given) and node.operator not in _TAKE_SIZES:
        refuse("it computes with the number of rows")
    return _results(call, rule(call))


def _of_constants(call: Call, rule: Rule | None) -> list[Value]:
    """The value of an operator with only constant inputs; its shape is computed if possible."""
    try:
        found = FIXED if rule is None else rule(call)
    except Mixes:
        found = FIXED
    return _results(call, found)


def _results(call: Call, found: Value | list[Value]) -> list[Value]:
    values = found if isinstance(found, list) else [found] * max(len(call.node.outputs), 1)
    if call.node.operator in _KEEP_ELEMENTS:
        return values
    return [Value(value.dims, value.at) for value in values]


def _elementwise(call: Call) -> Value:
    return broadcast(call.given())


def _same(call: Call) -> Value:
    """The first input's shape; the others are parameters."""
    fixed(*call.given(1))
    return call.input(0)


def _copied(call: Call) -> Value:
    return call.input(0)


def _cast(call: Call) -> Value:
    value = call.input(0)
    if call.integer("to", 0) in _WIDE and all(map(_is_small, value.elements or ())):
        return value
    if value.counts_rows:
        refuse("it converts the number of rows")
    return Value(value.dims, value.at)


def _is_small(element: Element) -> bool:
    is_marked = element is None or element == BATCH
    return is_marked or (isinstance(element, int) and abs(element) < _SMALL)


def _dropout(call: Call) -> Value:
    if call.has(2):
        mode = call.input(2).elements
        if mode is None or any(mode):
            refuse("it drops elements at random")
    return _same(call)


def _normalized(call: Call) -> Value:
    """A normalization along one axis; the shape stays."""
    value = call.input(0)
    besides(value, call.integer("axis", -1))
    return value


def _softmax(call: Call) -> Value:
    """Like ``_normalized``; before version 13, along all dimensions from the axis on."""
    if call.opset >= _SINGLE_AXIS:
        return _normalized(call)
    value = call.input(0)
    start = axis_of(call.integer("axis", 1), value.rank)
    besides(value, *range(start, value.rank))
    return value


def _trailing(call: Call) -> list[Value]:
    """A normalization over the dimensions from an axis on; the statistics have size 1 there."""
    value = call.input(0)
    start = axis_of(call.integer("axis", -1), value.rank)
    besides(value, *range(start, value.rank))
    fixed(*call.given(1))
    _check_parameters(call, value)
    statistics = (*value.shape[:start], *[1] * (value.rank - start))
    return [value, Value(statistics, value.at), Value(statistics, value.at)]


def _check_parameters(call: Call, value: Value) -> None:
    """Scale and bias must not depend on the number of rows."""
    if broadcast([value, *call.given(1)]).rank != value.rank:
        refuse("one of its parameters has more dimensions than its input")


def _batch_normalization(call: Call) -> Value:
    if call.integer("training_mode", 0) or len([o for o in call.node.outputs if o]) > 1:
        refuse("it normalizes by the mean of the batch")
    return _channels(call)


def _channels(call: Call) -> Value:
    """Normalization or pooling of images: the first dimension is the batch, the second the
    channels.
    """
    value = call.input(0)
    if value.at not in (None, 0) or value.rank < 2:
        refuse("the batch dimension is not the first")
    fixed(*call.given(1))
    return value


def _mean_variance(call: Call) -> Value:
    value = call.input(0)
    besides(value, *(call.integers("axes") or (0, 2, 3)))
    return value


def _reduce(call: Call) -> Value:
    value = call.input(0)
    axes = call.integers("axes", 1)
    if not axes:
        if call.integer("noop_with_empty_axes", 0):
            return value
        refuse("it reduces the batch dimension")
    return _without(value, besides(value, *axes), call.integer("keepdims", 1))


def _arg(call: Call) -> Value:
    value = call.input(0)
    return _without(value, besides(value, call.integer("axis", 0)), call.integer("keepdims", 1))


def _without(value: Value, axes: tuple[int, ...], keep: int) -> Value:
    shape = value.shape
    if keep:
        dims = tuple(1 if place in axes else size for place, size in enumerate(shape))
        return Value(dims, value.at)
    dims = tuple(size for place, size in enumerate(shape) if place not in axes)
    at = None if value.at is None else value.at - sum(axis < value.at for axis in axes)
    return Value(dims, at)


def _cumulative(call: Call) -> Value:
    value = call.input(0)
    axes = call.integers("axis", 1)
    if axes is None or len(axes) != 1:
        refuse("its axis is not a constant")
    besides(value, *axes)
    return value


def _top(call: Call) -> Value:
    value = call.input(0)
    (axis,) = besides(value, call.integer("axis", -1))
    fixed(*call.given(1))
    wanted = call.input(1).elements if call.has(1) else None
    size = wanted[0] if wanted and len(wanted) == 1 else None
    dims = list(value.shape)
    dims[axis] = size if isinstance(size, int) else None
    return Value(tuple(dims), value.at)


def _quantize(call: Call) -> Value:
    value = call.input(0)
    parameters = call.given(1)
    fixed(*parameters)
    if any(parameter.rank > 1 for parameter in parameters):
        refuse("it has parameters for blocks of elements")
    if any(size != 1 for parameter in parameters for size in parameter.shape):
        besides(value, call.integer("axis", 1))
    return value


def _one_hot(call: Call) -> Value:
    value = call.input(0)
    fixed(*call.given(1))
    axis = axis_of(call.integer("axis", -1), value.rank + 1)
    at = value.batch
    depth = call.input(1).elements
    size = depth[0] if depth and isinstance(depth[0], int) else None
    return Value((*value.shape[:axis], size, *value.shape[axis:]), at + 1 if axis <= at else at)


def _constant(call: Call) -> Value:
    for value in call.node.attributes.values():
        if isinstance(value, TensorData):
            return Value(value.dims, None, value.elements)
        if isinstance(value, tuple):
            numbers = tuple(each for each in value if not isinstance(each, bytes))
            return Value((len(value),), None, numbers if len(numbers) == len(value) else None)
        return Value((), None, (value,) if isinstance(value, int | float) else None)
    return FIXED


def _pool(call: Call) -> Value:
    """Rows and channels stay; the other sizes are not computed."""
    value = _channels(call)
    if value.rank < 3:
        refuse("its input is not a batch of images")
    if call.node.operator == "MaxPool" and len([o for o in call.node.outputs if o]) > 1:
        refuse("its indices count over the whole batch")
    return onnx_products.pooled(call, value)


def _classifier(call: Call) -> list[Value]:
    """A classical model: [rows, features] to the labels, [rows], and the scores of each class."""
    scores = _scores(call, onnx_products.classes(call))
    return [Value((None,), 0), scores]


def _regressor(call: Call) -> Value:
    """A classical model: [rows, features] to [rows, targets]."""
    return _scores(call, call.integer("n_targets", call.integer("targets", 1)))


def _vector_regressor(call: Call) -> Value:
    """A support vector machine: [rows, features] to one number for each row."""
    return _scores(call, 1)


def _scores(call: Call, columns: int | None) -> Value:
    value = call.input(0)
    if value.at != 0 or value.rank != 2:
        refuse("its input is not a batch of rows")
    fixed(*call.given(1))
    return Value((None, columns), 0)


def _features(call: Call) -> Value:
    """[rows, features] of each input to all features of each row."""
    values = call.given()
    if any(value.at != 0 or value.rank != 2 for value in values):
        refuse("its input is not a batch of rows")
    sizes = [value.shape[1] for value in values]
    known = [size for size in sizes if size is not None]
    return Value((None, sum(known) if len(known) == len(sizes) else None), 0)


def _keeps_rows(call: Call) -> Value:
    """[rows, features] to the same shape."""
    value = call.input(0)
    return (
        value if value.at == 0 and value.rank == 2 else refuse("its input is not a batch of rows")
    )


def _extract(call: Call) -> Value:
    value = call.input(0)
    besides(value, -1)
    fixed(call.input(1))
    count = 1
    for size in call.input(1).shape:
        count *= size if size is not None else refuse("the number of features is unknown")
    return Value((*value.shape[:-1], count), value.at)


def _one_hot_encoder(call: Call) -> Value:
    value = call.input(0)
    categories = call.attribute("cats_int64s") or call.attribute("cats_strings")
    size = len(categories) if isinstance(categories, tuple) else None
    return Value((*value.shape, size), value.batch)


def _clip(call: Call) -> Value:
    single(*call.given(1))
    return call.input(0)


# Operators whose results differ between two equal calls.
_RANDOM: Final = _names(
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
)
# Operators that accept a shape tensor with the number of rows.
_TAKE_SIZES: Final = _names(
    "Cast Concat ConstantOfShape Equal Expand Gather Identity Mul Reshape Slice Squeeze Unsqueeze "
    "Where"
)
# Operators whose rules also compute the elements of small tensors.
_KEEP_ELEMENTS: Final = _names(
    "Cast Concat Constant ConstantOfShape Equal Gather Identity Mul Reshape Shape Slice Squeeze "
    "Unsqueeze Where"
)
# INT32 and INT64, which represent these numbers exactly.
_WIDE: Final = (6, 7)
_SMALL: Final = 2**31
# Version from which softmax uses a single axis.
_SINGLE_AXIS: Final = 13


_ELEMENTWISE: Final = _names(
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr "
    "BitwiseXor Ceil Celu Cos Cosh Div Elu Erf Exp Floor Gelu Greater GreaterOrEqual "
    "HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod "
    "Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus "
    "Softsign Sqrt StringConcat Sub Sum Swish Tan Tanh ThresholdedRelu Xor"
)
_REDUCTIONS: Final = _names(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
)
_ONNX: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(_names("AveragePool LpPool MaxPool"), _pool),
    **dict.fromkeys(
        _names("GlobalAveragePool GlobalLpPool GlobalMaxPool"), onnx_products.global_pooled
    ),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "CastLike": _copied,
    "Clip": _clip,
    "Constant": _constant,
    "CumSum": _cumulative,
    "DequantizeLinear": _quantize,
    "Dropout": _dropout,
    "GroupNormalization": _channels,
    "Hardmax": _softmax,
    "Identity": _copied,
    "InstanceNormalization": _channels,
    "LRN": _channels,
    "LayerNormalization": _trailing,
    "LogSoftmax": _softmax,
    "LpNormalization": _normalized,
    "MeanVarianceNormalization": _mean_variance,
    "OneHot": _one_hot,
    "QuantizeLinear": _quantize,
    "RMSNormalization": _trailing,
    "Softmax": _softmax,
    "TopK": _top,
    **onnx_moves.RULES,
    **onnx_products.RULES,
}
_CLASSICAL: Final[Mapping[str, Rule]] = {
    "ArrayFeatureExtractor": _extract,
    "Binarizer": _copied,
    "CategoryMapper": _copied,
    "FeatureVectorizer": _features,
    "Imputer": _keeps_rows,
    "LabelEncoder": _copied,
    "LinearClassifier": _classifier,
    "LinearRegressor": _regressor,
    "Normalizer": _keeps_rows,
    "OneHotEncoder": _one_hot_encoder,
    "SVMClassifier": _classifier,
    "SVMRegressor": _vector_regressor,
    "Scaler": _keeps_rows,
    "TreeEnsembleClassifier": _classifier,
    "TreeEnsembleRegressor": _regressor,
}
RULES: Final[Mapping[tuple[str, str], Rule]] = {
    **{("", operator): rule for operator, rule in _ONNX.items()},
    **{(ML, operator): rule for operator, rule in _CLASSICAL.items()},
}
