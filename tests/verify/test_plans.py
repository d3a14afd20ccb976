from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.faults import FaultKind
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import simulate
from paymock.verify.batches import parse_token
from paymock.verify.plans import (
    FAULTS,
    Baseline,
    Frequency,
    Injection,
    Plan,
    RequestKey,
    frequencies,
    interleaved,
    single_faults,
)

CREATION = RequestKey("createPayment")
ASSETS = RequestKey("listAssets")
READS = tuple(RequestKey("getPayment", at) for at in (0.0, 5.0, 22.0))
STATUSES = {0.0: "awaiting_payment", 5.0: "payment_detected", 22.0: "completed"}
BASELINE = Baseline("happy_path", (ASSETS, CREATION, *READS), STATUSES)
OTHER = Baseline("other", (ASSETS, CREATION, *READS[:2]), {0.0: "awaiting_payment", 5.0: "expired"})

REQUESTS = st.builds(
    RequestKey,
    st.sampled_from(["createPayment", "getPayment", "listAttempts", "listAssets"]),
    st.none() | st.integers(0, 10**9).map(lambda milliseconds: milliseconds / 1000),
    st.integers(1, 999),
)
NO_FAULTS = [
    "", "readPayment=drop", "getPayment", "getPayment@5#99999=drop", "getPayment@1.2.3=drop",
    "getPayment#0=drop", "getPayment@\u0665=drop", "getPayment@5=", "order=3x", "order=crash", "outage=",
    "parked=crash+one",
]  # fmt: skip
PLANS = st.builds(
    Plan,
    st.sampled_from(["happy_path", "x", "two_halves_2"]),
    st.lists(st.builds(Injection, REQUESTS, st.sampled_from([*FAULTS])), max_size=3).map(tuple),
)


class TestTokens:
    @given(PLANS)
    def test_a_token_says_everything_and_needs_no_quotes(self, plan: Plan) -> None:
        assert parse_token(plan.token) == plan
        assert not set(plan.token) & set(" ;|&<>()$`\\\"'*?[]!~#\t\n") - {"#"}
        assert not plan.token.startswith("#")

    def test_it_can_be_read_and_typed(self) -> None:
        injections = (
            Injection(RequestKey("getPayment", 5.0, 2), "status=502; after; times=6"),
            Injection(CREATION, "reset"),
        )
        assert Plan("happy_path", injections).token == (
            "happy_path/getPayment@5#2=status=502+after+times=6/createPayment=reset"
        )
        assert Plan("happy_path", (Injection(READS[0], "drop"),)).token == "happy_path/getPayment@0=drop"
        assert (
            Plan("x", (Injection(RequestKey("getPayment", 3599.001), "drop"),)).token
            == "x/getPayment@3599.001=drop"
        )

    @pytest.mark.parametrize(
        ("part", "message"),
        [
            *((part, f"{part!r} must be like getPayment@5=drop") for part in NO_FAULTS),
            ("getPayment=drop+sideways", "'drop; sideways' must be status=CODE (400 to 599; "),
            ("getPayment@45=meet+0", "'meet; 0' must be status=CODE"),
            ("createPayment=crash+3ms", "'crash; 3ms' must be status=CODE"),
        ],
    )
    def test_what_is_none_is_refused_with_what_would_be_one(self, part: str, message: str) -> None:
        with pytest.raises(ValueError, match="must be") as refused:
            parse_token(f"happy_path/createPayment=drop/{part}")
        assert message in str(refused.value)


class TestBatches:
    @pytest.mark.parametrize(
        ("token", "clause"),
        [
            ("*/outage=status=503", "every request gets `status=503` for up to 2 s"),
            ("*/outage=status=503+after", "every request gets `status=503; after` for up to 2 s"),
            ("*/outage=hang", "every request gets `hang` for up to 2 s"),
            (
                "*/outage=half+truncate=20",
                "every request of half of the orders gets `truncate=20` for up to 2 s",
            ),
            ("*/orders=40x", "40 orders are open at the same time, without a fault"),
            (
                "happy_path/renewal=late",
                "a new payment is made after the first one has expired, which is paid late",
            ),
            ("happy_path/order=3x", "an order is placed 3 times at once"),
            ("x/order=crash+10ms", "… 10 ms after the first order was answered"),
            ("happy_path/createPayment=crash", "… while the reply to `createPayment` is on its way"),
            ("happy_path/createPayment=crash+before", "… before its `createPayment` arrives"),
            ("happy_path/createPayment=crash+late", "… and its `createPayment` arrives after the retry"),
            ("happy_path/getPayment@45=crash", "… while the reply to `getPayment` at 45 s is on its way"),
            ("x/getPayment@45=crash+3ms", "… 3 ms after the first `getPayment` that shows the state at 45 s"),
            (
                "happy_path/getPayment@45=crash+one",
                "one replica is killed while the reply to `getPayment` at 45 s is on its way",
            ),
            ("x/getPayment@45=meet+2", "2 replicas read a payment at the same time at 45 s"),
            (
                "x/getPayment@30.5=hold",
                "the reply to a `getPayment` at 30.5 s arrives late, after any younger one",
            ),
            ("happy_path/deliveries=crash", "… shortly before or after a delivery"),
            ("*/parked=crash", "…"),
            ("*/parked=crash+term", "… by SIGTERM"),
            ("*/parked=crash+twice", "… twice"),
            ("*/parked=crash+end", "…, and all payments end before it starts"),
        ],
    )
    def test_a_token_is_a_clause(self, token: str, clause: str) -> None:
        batch = parse_token(token)
        assert batch.token == token
        assert str(batch) == clause.replace("…", "the application is killed")

    @pytest.mark.parametrize(
        "token",
        ["*/order=3x", "*/renewal=late", "x/orders=40x", "x/outage=drop", "*/outage=half", "*/orders=3"],
    )
    def test_what_is_of_other_scenarios_or_unknown_is_refused(self, token: str) -> None:
        with pytest.raises(ValueError, match=r"must be|is not of"):
            parse_token(token)


class TestInjections:
    def test_a_rule_counts_an_outage_and_gets_the_fault_alone(self) -> None:
        injection = Injection(CREATION, "status=500; after ; times=6")
        assert (injection.parsed.text, injection.times) == ("status=500; after", 6)
        assert Injection(CREATION, "drop").times == 1


class TestSmallerPlans:
    @pytest.mark.parametrize(
        ("times", "shorter"),
        [(1, []), (2, ["drop"]), (3, ["drop"]), (4, ["drop; times=2"]), (6, ["drop; times=3"])],
    )
    def test_an_outage_gets_shorter(self, times: int, shorter: list[str]) -> None:
        plan = Plan("happy_path", (Injection(CREATION, "drop" if times == 1 else f"drop; times={times}"),))
        without, *rest = plan.smaller
        assert without == Plan("happy_path")
        assert rest == [Plan("happy_path", (Injection(CREATION, fault),)) for fault in shorter]

    def test_each_fault_can_be_left_out(self) -> None:
        first, second = Injection(CREATION, "drop"), Injection(READS[0], "status=500; times=2")
        assert [*Plan("happy_path", (first, second)).smaller] == [
            Plan("happy_path", (second,)),
            Plan("happy_path", (first,)),
            Plan("happy_path", (first, Injection(READS[0], "status=500"))),
        ]


class TestSingleFaults:
    def test_a_chosen_fault_hits_each_request_but_one_about_no_payment_in_one_scenario_only(self) -> None:
        plans = [*single_faults([BASELINE, OTHER], frequencies(["drop", "reset"]), ["completed"])]
        assert len({*plans}) == len(plans)
        injection = Counter((plan.scenario, plan.injections[0].request.operation) for plan in plans)
        assert injection == {
            ("happy_path", "listAssets"): 2,
            ("happy_path", "createPayment"): 2,
            ("happy_path", "getPayment"): 6,
            ("other", "createPayment"): 2,
            ("other", "getPayment"): 4,
        }

    @pytest.mark.parametrize(
        ("frequency", "requests"),
        [
            (
                Frequency.EACH_STATUS,
                "x/createPayment x/getPayment@0 x/getPayment@5 y/listAssets y/getPayment@22 z/getPayment@5",
            ),
            (Frequency.NEXT, "x/getPayment@5#2"),
            (Frequency.FIRST, "x/createPayment x/getPayment@0 y/listAssets"),
            (Frequency.CREATION, "x/createPayment"),
        ],
    )
    def test_by_default_a_fault_hits_what_tells_most(self, frequency: Frequency, requests: str) -> None:
        often = [RequestKey("getPayment", at, number) for at in (0.0, 5.0) for number in (1, 2, 3, 4, 5)]
        first = Baseline("x", (CREATION, RequestKey("createPayment", None, 2), *often), BASELINE.statuses)
        baselines = [first, replace(BASELINE, scenario="y"), replace(OTHER, scenario="z")]
        plans = single_faults(baselines, {"hang": frequency}, ["payment_detected"])
        assert [plan.token.removesuffix("=hang") for plan in plans] == requests.split()

    def test_where_goods_are_due_the_next_reads_are_hit_too(self) -> None:
        reads = tuple(RequestKey("getPayment", 22.0, number) for number in range(1, 7))
        plans = single_faults([Baseline("x", reads, STATUSES)], frequencies(None), ["completed"])
        hit = Counter(plan.injections[0].request.number for plan in plans)
        assert (hit[2], hit[3], hit[4], hit[5]) == (3, 2, 2, 0)

    def test_a_poller_is_tried_165_times_and_deep_934_times(self) -> None:
        baselines = []
        for name, scenario in SCENARIOS.items():
            states = {state.at / 1000: state.status for state in simulate(scenario, 10**6, "USDC")}
            reads = [RequestKey("getPayment", at) for at in states]
            baselines.append(Baseline(name, (CREATION, *reads), states))
        for deep, count in ((False, 155), (True, 878)):
            assert len([*single_faults(baselines, frequencies(None, deep=deep), ["completed"])]) == count

    def test_scenarios_take_turns(self) -> None:
        first, second, other = Plan("x"), Plan("x", number=1), Plan("y")
        assert interleaved([first, second, other]) == [first, other, second]

    def test_the_defaults_are_faults_of_all_kinds(self) -> None:
        kinds = {Injection(CREATION, fault).parsed.kind for fault in FAULTS}
        assert kinds == {*FaultKind} - {FaultKind.HOLD, FaultKind.EXTRA}
