"""A backend whose library is an optional extra and is imported with its first model.

The libraries take up to a second and a hundred megabytes to import, so a server imports only those
that its models need. If one is not installed, its models fail with a message that says how to
install it, and other models serve.
"""

import importlib
import logging
from typing import Any

from moorage_runtime.backends.base import Backend, LoadedModel, ModelSource
from moorage_runtime.values.errors import InvalidConfig

log = logging.getLogger(__name__)

# The extras that an image can be built with; a test compares them with requirements-*.txt.
IMAGE_EXTRAS = frozenset({"gpu", "openvino", "pip", "tables", "text"})


class ExtraBackend:
    """Imports the real backend when its first model is loaded.

    Args:
        extra: Name of the extra of moorage-runtime that installs the library.
        module: Module of the real backend.
        backend: Its class in that module.
        arguments: Arguments of that class.
    """

    def __init__(self, extra: str, module: str, backend: str, *arguments: object) -> None:
        self._extra = extra
        self._module = module
        self._name = backend
        self._arguments = arguments

    def load(self, source: ModelSource) -> LoadedModel:
        """Load the model with the real backend.

        Raises:
            InvalidConfig: The extra is not installed, its library cannot be imported, or the real
                backend raised it.
        """
        module = imported(self._extra, self._module, source.path.name)
        backend: Backend = getattr(module, self._name)(*self._arguments)
        return backend.load(source)


def installation(extra: str) -> str:
    """How to install an extra, for messages; the packages are in no public index."""
    image = f"built with EXTRAS={extra}" if extra in IMAGE_EXTRAS else "of your own that has it"
    return f"use an image {image}, or run pip install './runtime[{extra}]' in the repository"


def imported(extra: str, module: str, file: str) -> Any:
    """A module that needs the library of an extra.

    Args:
        extra: Name of the extra.
        module: Name of the module.
        file: Name of the model file that needs it, for messages.

    Raises:
        InvalidConfig: The extra is not installed, or its library cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"{file} requires the extra '{extra}', which is not installed (no module "
            f"'{error.name}'): {installation(extra)}"
        ) from error
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing
        log.exception("the library of the extra '%s' cannot be imported", extra)
        raise InvalidConfig(
            f"{file} requires the extra '{extra}', which is installed but cannot be imported: "
            f"{error}"
        ) from error
