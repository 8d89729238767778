"""Which certificate authority of the API server is trusted, also after it was replaced.

A cluster that replaces its authority first updates the file of the service account, and then the
certificate of the API server. A leader that no longer reaches the API server exits and a new
process reads the file, but a process that waits for the lease would wait forever.
"""

import logging
import ssl

import aiohttp

from . import auth

__all__ = ["Trust"]

logger = logging.getLogger(__name__)


class Trust:
    """The TLS settings of a session.

    An authority that was replaced is trusted too until the process ends.

    Args:
        access: The API server.

    Attributes:
        context: The TLS settings, None for plain HTTP.
    """

    def __init__(self, access: auth.Access) -> None:
        self.context: ssl.SSLContext | None = auth.ssl_context(access)
        self._path = access.ca_path
        self._known = access.ca

    def review(self, error: BaseException) -> None:
        """Read the authority's file again if this error of a request may be due to it."""
        if not isinstance(error, aiohttp.ClientConnectorCertificateError):
            return
        if self._path is None or self.context is None:
            return
        try:
            found = self._path.read_text()
            if found == self._known:
                return
            self.context.load_verify_locations(cadata=found)
        except (OSError, ValueError) as failure:  # a certificate that is not PEM is an OSError
            logger.warning("the authority cannot be read", extra={"error": str(failure)})
            return
        self._known = found
        logger.info("trusts the new authority of the API server")
