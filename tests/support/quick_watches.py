"""The operator with short watches, so that a test sees many of them end.

A replacement for `moorage-operator` in which only the deadlines of watches differ; their order is
the same.

    python quick_watches.py [arguments of the operator]
"""

import sys

from moorage_operator.__main__ import main
from moorage_operator.kube import client, liveness, reflector
from moorage_operator.watch import namespaces

WATCH_SECONDS = 3
GRACE_SECONDS = 1.5
FAILING_SECONDS = 3.0
REFUSED_SECONDS = 1.0
BROKEN_SECONDS = 6.0

if __name__ == "__main__":
    reflector.WATCH_SECONDS = WATCH_SECONDS
    client.WATCH_GRACE_SECONDS = GRACE_SECONDS
    liveness.FAILING_SECONDS = FAILING_SECONDS
    liveness.BROKEN_SECONDS = BROKEN_SECONDS
    namespaces.REFUSED_SECONDS = REFUSED_SECONDS
    sys.exit(main())
