"""What paymock.testing and the pytest plugin share. The plugin may import nothing of paymock."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paymock.testing import Sandbox

open_sandboxes: "list[Sandbox]" = []
"""The sandboxes of each ServerHandle whose block has not ended."""

before_reset: "list[Callable[[Sandbox], None]]" = []
"""What is called with each of them at the end of its block, before the reset."""
