"""The garbage collector, in a process that does nothing but serve.

What is there when it begins to serve stays until it ends, and what a request leaves is freed as soon as
nothing refers to it. The collector looks for the rest, and a search through a million payments is a pause
that every client feels: so it looks seldom, and never again at what was there at the start.
"""

import gc

THRESHOLDS = (10_000, 20, 50)
"""After how many new containers the youngest are searched; after how many such searches one takes in older
ones; and after how many of those one takes in everything.
"""


def suspend() -> None:
    """No search while a server starts: what it imports stays, so there is nothing to be found."""
    gc.disable()


def resume() -> None:
    """Searches seldom, from now on, and only through what comes after this call."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
