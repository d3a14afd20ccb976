"""Tuning of the garbage collector for a process that only runs a server.

Objects that exist when the server starts live until it ends, and most objects of a request are freed by their
reference counts. Only cycles need the collector, and a full collection with a million payments pauses every
client. So collections are rare, and exclude the objects that existed at the start.
"""

import gc

THRESHOLDS = (10_000, 20, 50)
"""Thresholds of the three generations, as `gc.set_threshold` takes them: the number of new containers before
a collection of the youngest generation, and the number of collections of each generation before one of the
next.
"""


def suspend() -> None:
    """Disable collections while the server starts: what it imports is never freed."""
    gc.disable()


def resume() -> None:
    """Enable rare collections, which exclude all existing objects."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
