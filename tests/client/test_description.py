import socket
from datetime import datetime, timedelta

import httpx
import pytest

from paymock.client import description
from paymock.client.text import escape_control
from paymock.testing import Sandbox, Unreachable

ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


class TestDescribe:
    def test_an_empty_sandbox(self, paymock: Sandbox) -> None:
        now = paymock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        expected = [f"{now}, frozen", "", "payments:", "  none", "", "requests:", "  none"]
        assert paymock.describe().splitlines() == expected

    def test_payments_and_requests_are_in_their_order(self, paymock: Sandbox) -> None:
        first, second = paymock.create("underpaid_expired", order_id="a"), paymock.create(order_id="b")
        paymock.advance_payment(first["id"], to="end")
        paymock.advance(5)
        description = paymock.describe()
        assert paymock.describe() == description  # it changes nothing
        lines = description.splitlines()
        titles = [line for line in lines if line.startswith("  pay_")]
        assert titles == [
            f"  {first['id']}  underpaid_expired  underpaid_expired  order a",
            f"  {second['id']}  payment_detected  happy_path  order b",
        ]
        assert "    deposit  505000000000000000 USDT, finalized 16/16" in lines
        assert "    x     30 s  underpaid_expired" in lines  # it has happened
        assert "           7 s  payment_detected      Confirmations 4/16, confirming" in lines  # it has not
        assert [line.split()[1:] for line in lines[-2:]] == [["201", "POST", "/v1/payments", "new"]] * 2

    def test_a_refused_and_a_lost_request_are_explained(self, paymock: Sandbox) -> None:
        headers = {"Authorization": f"Bearer {paymock.api_key}"}
        with httpx.Client(base_url=paymock.url, headers=headers) as http:
            http.post("/v1/webhooks", json={"url": "ftp://a"}, headers={"Idempotency-Key": "endpoint-1"})
            with pytest.raises(httpx.RemoteProtocolError):
                http.get("/v1/chains", headers={"X-Mock-Fault": "drop"})
            http.get("/v1/payments/pay_x")
        refused, field, lost, _, message = paymock.describe().splitlines()[-5:]
        assert refused.endswith("  422   POST  /v1/webhooks  validation_failed")
        assert message.startswith("    This API key has no payment")
        assert field.startswith("    url: must ")
        assert lost.endswith("  lost  GET   /v1/chains  fault drop")

    def test_equal_reads_in_a_row_are_one_line_in_virtual_time(self, paymock: Sandbox) -> None:
        payment = paymock.create("no_payment_expired")
        headers = {"Authorization": f"Bearer {paymock.api_key}"}
        with httpx.Client(base_url=paymock.url, headers=headers) as http:
            for _ in range(31):
                http.get(f"/v1/payments/{payment['id']}")
                paymock.advance(1)
            http.get(f"/v1/payments/{payment['id']}/attempts")
        polls, attempts = paymock.describe().splitlines()[-2:]
        path = f"200   GET   /v1/payments/{payment['id']}"
        assert polls.endswith(f"Z  {path}  31 \N{MULTIPLICATION SIGN} getPayment  last shown expired at 30 s")
        assert attempts.endswith(f"Z  {path}/attempts  shown expired at 30 s")
        times = [datetime.fromisoformat(line.split()[0]) for line in (polls, attempts)]
        assert times == [paymock.now() - timedelta(seconds=1), paymock.now()]

    def test_fault_rules_are_shown_with_their_counts(self, paymock: Sandbox) -> None:
        paymock.fault("delay=1", operation="createPayment", order_id="a", skip=1, times=2)
        for _ in range(2):
            paymock.create(order_id="a")
        lines = paymock.describe().splitlines()
        rules = lines.index("fault rules:")
        assert lines[rules + 1 : rules + 4] == [
            "  2 times     delay=1  createPayment  order a  skip 1  seen 2  applied 1",
            "",
            "requests:",
        ]
        assert lines[-1].endswith("  201   POST  /v1/payments  new  fault delay=1")

    def test_it_has_no_keys_addresses_and_control_characters(self, paymock: Sandbox) -> None:
        for secret in (paymock.api_key, ADDRESS, ADDRESS[2:], "mk_test_other", "whsec_" + "0" * 64):
            paymock.create(
                order_id=f"\u202eorder {secret}",
                receive={"chain": "bsc", "asset": "USDT", "amount": "1", "address": ADDRESS},
            )
            with httpx.Client(headers={"Authorization": f"Bearer {paymock.api_key}"}) as http:
                http.get(f"{paymock.url}/v1/payments/{secret}")
        text = paymock.describe()
        assert text.count("order \\u202eorder ***") == 5
        for secret in (paymock.api_key, ADDRESS[2:], "mk_test", "whsec_"):
            assert secret not in text

    def test_it_is_bounded(self, paymock: Sandbox) -> None:
        for number in range(30):
            payment = paymock.create("no_payment_expired", order_id=f"order-{number}-" + "x" * 110)
        for _ in range(2 * description.MAX_CHANGES):
            paymock.deposit(payment["id"], 1)
        for _ in range(description.MAX_RULES + 1):
            paymock.fault("drop", order_id="x" * 128)
        paymock.advance_payment(payment["id"], to="end")
        lines = paymock.describe().splitlines()
        assert lines.count("payments, the last 5:") == lines.count("requests, the last 20:") == 1
        assert lines.count("fault rules, the first 20:") == 1
        assert len(lines) <= 5 * (2 + 2 * description.MAX_CHANGES) + 60
        assert max(map(len, lines)) <= 163
        assert "order-25-" in lines[3]
        assert "underpaid_expired" in "\n".join(lines)  # the last change of the long timeline

    def test_a_silent_server_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(description, "TIMEOUT", 0.1)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with Sandbox(url, "mk_test_demo") as sandbox, pytest.raises(Unreachable, match="does not answer"):
                sandbox.describe()


@pytest.mark.parametrize("character", ["\n", "\t", "\x1b", "\x7f", "\x9b", "\u200f", "\u2029", "\u2069"])
def test_a_control_character_is_escaped(character: str) -> None:
    assert escape_control(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"
    assert escape_control("заказ 🎉 \N{ZERO WIDTH JOINER}") == "заказ 🎉 \N{ZERO WIDTH JOINER}"
