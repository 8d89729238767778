"""Applications of single ONNX operators, each with the verdict of the static analysis.

Unlike the zoo, they include graphs that no runtime loads: a proof must not depend on that.
"""

from support.onnx_operators.application import Application
from support.onnx_operators.moves import MOVES
from support.onnx_operators.others import OTHERS
from support.onnx_operators.products import PRODUCTS

__all__ = ["APPLICATIONS", "Application"]

APPLICATIONS = [*MOVES, *PRODUCTS, *OTHERS]
