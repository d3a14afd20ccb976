"""Request ids: short, cheap, and unique in practice across servers."""

import os
from collections.abc import Iterator
from itertools import count


def request_ids() -> Iterator[str]:
    """Return an endless iterator of ids: a random part for this server, and a number."""
    server = os.urandom(5).hex()
    return (f"req_{server}_{hex(number)[2:]}" for number in count(1))
