"""A backend whose library is an extra of the package and comes in with its first model.

The libraries take up to a second and a hundred megabytes to import, so a server pays for those
that its models need. Where one is not installed the model fails with a sentence that says what
to install, and every other model serves.
"""

import importlib
import logging

from moorage_runtime.backends.base import Backend, LoadedModel, ModelSource
from moorage_runtime.errors import InvalidConfig

log = logging.getLogger(__name__)


class ExtraBackend:
    """Imports the real backend when its first model is loaded.

    Args:
        extra: Name of the extra of moorage-runtime that brings the library.
        module: Module of the real backend.
        backend: Its class in that module.
    """

    def __init__(self, extra: str, module: str, backend: str) -> None:
        self._extra = extra
        self._module = module
        self._name = backend

    def load(self, source: ModelSource) -> LoadedModel:
        """Load the model with the real backend.

        Raises:
            InvalidConfig: The extra is not installed or its library does not import, or as the
                real backend.
        """
        try:
            module = importlib.import_module(self._module)
        except ModuleNotFoundError as error:
            raise InvalidConfig(
                f"{source.path.name} needs the extra '{self._extra}', which is not installed "
                f"(no module '{error.name}'): pip install moorage-runtime[{self._extra}]"
            ) from error
        except ImportError as error:
            log.exception("the library of the extra '%s' does not import", self._extra)
            raise InvalidConfig(
                f"{source.path.name} needs the extra '{self._extra}', which is installed but "
                f"does not import: {error}"
            ) from error
        backend: Backend = getattr(module, self._name)()
        return backend.load(source)
