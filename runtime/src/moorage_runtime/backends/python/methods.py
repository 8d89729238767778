"""The methods of a model that answer requests, checked once its class has loaded.

load --> **check** --> servable

Without the check, a model whose method takes other arguments would be ready and fail all requests.
"""

import inspect
from typing import Any

from moorage_runtime.values.errors import InvalidConfig

# The arguments that the server passes, apart from self.
_ARGUMENTS = {
    "predict": ("inputs", "request"),
    "stream": ("inputs", "request"),
    "http": ("call",),
}


def check(file: str, model: Any, base: type) -> None:
    """Check that a model has a method to answer requests, and that the server can call it.

    Args:
        file: The name of model.py, for messages.
        model: The model.
        base: The class whose methods count as absent.

    Raises:
        InvalidConfig: It has none, or one that is asynchronous or takes other arguments.
    """
    name = type(model).__name__
    own = [each for each in _ARGUMENTS if _is_own(model, each, base)]
    if model.http_path and "http" not in own:
        raise InvalidConfig(f"{file}: {name} has an http_path, but no http method")
    if not own:
        raise InvalidConfig(f"{file}: {name} defines neither predict nor stream")
    for method in own:
        function, arguments = getattr(model, method), _ARGUMENTS[method]
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidConfig(
                f"{file}: {name}.{method} is asynchronous: must be defined without async"
            )
        try:
            # a decorator may pass other arguments to what it wraps
            signature = inspect.signature(function, follow_wrapped=False)
        except (TypeError, ValueError):
            continue  # written in C
        try:
            signature.bind(*arguments)
        except TypeError as error:
            wanted = ", ".join(("self", *arguments))
            raise InvalidConfig(
                f"{file}: {name}.{method} cannot be called: {error}: must take ({wanted})"
            ) from error


def _is_own(model: Any, method: str, base: type) -> bool:
    found = getattr(model, method)
    return getattr(found, "__func__", found) is not getattr(base, method)
