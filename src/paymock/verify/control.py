"""The control of the sandbox that trials run in. Each method raises Refused and Unreachable."""

from contextlib import suppress
from functools import partial
from typing import Any

from paymock.client.http import Client, Json, Refused, fault_rule_path, payment_path
from paymock.schemas import control as schemas
from paymock.schemas.public import Payment
from paymock.schemas.replies import decode_json_reply
from paymock.verify.plans import Hit

_REPLY_SECONDS = 40.0


class Control:
    """The control API of one sandbox, as far as trials need it."""

    def __init__(self, url: str, api_key: str) -> None:
        self.api_key = api_key
        self._client = Client(url, api_key)
        self._last_request: str | None = None
        self._time = ""

    def freeze(self) -> float:
        speed: float = self._call(schemas.VirtualClock, "GET", "/_mock/clock")["speed"]
        self.set_speed(0)
        return speed

    def set_speed(self, speed: float) -> None:
        self._time = self._call(schemas.VirtualClock, "PUT", "/_mock/clock", {"speed": speed})["now"]

    @property
    def clock_was_moved(self) -> bool:
        """Whether the clock of the sandbox has moved since its speed was set."""
        clock = self._call(schemas.VirtualClock, "GET", "/_mock/clock")
        return bool(clock["speed"] or clock["now"] != self._time)

    def scenarios(self) -> list[str]:
        """The names of the scenarios of the server."""
        return [
            scenario["name"]
            for scenario in self._call(schemas.ScenarioList, "GET", "/_mock/scenarios")["data"]
        ]

    def set_scenario(self, order_id: str, scenario: str) -> None:
        self._call(
            schemas.PendingOverrideList, "POST", "/_mock/next", {"scenario": scenario, "order_id": order_id}
        )

    def clear_scenario(self, order_id: str) -> None:
        self._call(type(None), "DELETE", "/_mock/next", query={"order_id": order_id})

    def add_fault(self, hit: Hit, order_id: str | None) -> str:
        """Add the rule for a fault, whose request is counted from now on; return its id."""
        request = hit.request
        body: Json = {"fault": hit.parsed.text, "operation": request.operation}
        body |= {"skip": request.number - 1, "times": hit.times}
        if order_id is not None:
            body["order_id"] = order_id
        rule: str = self._call(schemas.FaultRule, "POST", "/_mock/faults", body)["id"]
        return rule

    def delete_fault(self, rule: str) -> None:
        self._call(type(None), "DELETE", fault_rule_path(rule))

    def advance(self, payment_id: str, to: str) -> bool:
        """Advance a payment to its `"next"` change or to the `"end"` of its timeline; return whether there is
        one.
        """
        try:
            self._call(Payment, "POST", payment_path(payment_id, "advance"), {"to": to})
        except Refused as refused:
            if refused.code != "status_unreachable":
                raise
            return False
        return True

    def detail(self, payment_id: str) -> Json:
        detail: Json = self._call(schemas.PaymentDetail, "GET", payment_path(payment_id))
        return detail

    def add_finding(self, finding: Json) -> None:
        """Show a finding on the dashboard, if the server can."""
        with suppress(Refused):
            self._call(schemas.Finding, "POST", "/_mock/findings", finding)

    def skip_requests(self) -> None:
        newest = self._call(schemas.Journal, "GET", "/_mock/requests", query={"limit": 1})["data"]
        self._last_request = newest[0]["request_id"] if newest else None

    def new_requests(self, count: int, timeout: float) -> list[Json]:
        """The requests since the last call, oldest first, once there are `count` of them, or after `timeout`
        seconds.
        """
        query = {"after": self._last_request, "count": count, "timeout": timeout}
        entries: list[Json] = self._call(
            schemas.RequestWaitResult, "GET", "/_mock/requests/wait", query=query
        )["data"]
        if entries:
            self._last_request = entries[0]["request_id"]
        return entries[::-1]

    def close(self) -> None:
        self._client.close()

    def _call(
        self,
        reply_type: type[Any],
        method: str,
        path: str,
        body: Json | None = None,
        query: dict[str, Any] | None = None,
    ) -> Any:
        decode = partial(decode_json_reply, reply_type=reply_type)
        call = self._client.send(method, path, decode=decode, body=body, query=query, timeout=_REPLY_SECONDS)
        return call.result()
