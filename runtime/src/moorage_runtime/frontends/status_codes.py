"""The HTTP status of each class of error, as all protocols have it.

    RuntimeFault --> nearest class of the table --> HTTP status, code of a GRPS Status

A protocol whose specification demands another status changes its copy of the table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from moorage_runtime.values import errors

# Specs: an error status, typically 400. Peers: 404 for missing objects. We: the class of the
# error decides, so that clients know whether a retry may help.
HTTP_STATUS: Final[Mapping[type[errors.RuntimeFault], int]] = MappingProxyType(
    {
        errors.RuntimeFault: 500,
        errors.InvalidRequest: 400,
        errors.PayloadTooLarge: 413,
        errors.UnsupportedEncoding: 415,
        errors.UnsupportedDatatype: 400,
        errors.Forbidden: 403,
        errors.NotFound: 404,
        errors.ModelNotFound: 404,
        errors.VersionNotFound: 404,
        errors.Unavailable: 503,
        errors.ModelNotReady: 503,
        errors.RepositoryUnread: 503,
        errors.QueueFull: 503,
        errors.ServerBusy: 503,
        errors.ShuttingDown: 503,
        errors.DeadlineExceeded: 504,
        errors.InvalidConfig: 500,
        errors.ModelFailed: 500,
    }
)
