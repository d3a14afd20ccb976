"""The sandbox that trials run in. Each method raises Refused and Unreachable."""

from paymock.client.http import Json, Refused
from paymock.client.sandbox import Sandbox
from paymock.verify.plans import Hit


class Control:
    """What trials do to a sandbox besides its calls, and what they remember of it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._last_request: str | None = None
        self._time = ""

    def freeze(self) -> float:
        """Stop the clock, and return the speed that it had."""
        speed: float = self.sandbox.clock()["speed"]
        self.set_speed(0)
        return speed

    def set_speed(self, speed: float) -> None:
        self._time = self.sandbox.call("setClock", body={"speed": speed})["now"]

    @property
    def clock_was_moved(self) -> bool:
        """Whether the clock of the sandbox has moved since its speed was set."""
        clock = self.sandbox.clock()
        return bool(clock["speed"] or clock["now"] != self._time)

    def add_fault(self, hit: Hit, order_id: str | None) -> str:
        """Add the rule for a fault, whose request is counted from now on; return its id."""
        request = hit.request
        rule = self.sandbox.fault(
            hit.parsed.text,
            operation=request.operation,
            order_id=order_id,
            skip=request.number - 1,
            times=hit.times,
        )
        return str(rule["id"])

    def advance(self, payment_id: str, to: str) -> bool:
        """Advance a payment to its `"next"` change or to the `"end"` of its timeline; return whether there is
        one.
        """
        try:
            self.sandbox.advance_payment(payment_id, to)
        except Refused as refused:
            if refused.code != "status_unreachable":
                raise
            return False
        return True

    def skip_requests(self) -> None:
        """Let `new_requests` begin after the requests that there are."""
        newest = self.sandbox.requests(1)
        self._last_request = newest[0]["request_id"] if newest else None

    def new_requests(self, count: int, timeout: float) -> list[Json]:
        """The requests since the last call, oldest first, once there are `count` of them, or after `timeout`
        seconds.
        """
        query = {"after": self._last_request, "count": count, "timeout": timeout}
        entries: list[Json] = self.sandbox.call("waitForRequests", query=query)["data"]
        if entries:
            self._last_request = entries[0]["request_id"]
        return entries[::-1]
