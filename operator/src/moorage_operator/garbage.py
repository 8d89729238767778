"""What the garbage collector has to look at, so that what comes and goes is collected soon.

Called by the composition root once, between the first lists and the first model.
"""

import gc


def settle() -> None:
    """Have the collector look no more at what stays for good: code, and the first lists.

    It begins a whole collection only when a quarter of all objects is new. Beside many old ones
    that leaves cycles lying about which hold parsed objects.

    Source: CPython, "Garbage collector design", "Collecting the oldest generation"; gc.freeze.
    """
    gc.collect()
    gc.freeze()
