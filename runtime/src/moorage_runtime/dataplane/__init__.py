"""The server without any protocol: the calls of frontends, their metrics, and the interface to
other workers. Wire formats belong in `codec` and `frontends`, running a model in `execution`.
"""

from moorage_runtime.dataplane.dataplane import Dataplane

__all__ = ["Dataplane"]
