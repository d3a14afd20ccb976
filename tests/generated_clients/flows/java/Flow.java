// openapi-generator, java, library native.
import com.fasterxml.jackson.databind.ObjectMapper;
import control.model.AddFault;
import control.model.Advance;
import control.model.SetClock;
import control.model.SetNext;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import service.ApiClient;
import service.ApiException;
import service.api.ChainsAndAssetsApi;
import service.api.PaymentsApi;
import service.api.WebhooksApi;
import service.model.Asset;
import service.model.Chain;
import service.model.CreateWebhookEndpoint;
import service.model.CreatePayment;
import service.model.Deposit;
import service.model.ErrorEnvelope;
import service.model.EventName;
import service.model.PayWithRequest;
import service.model.PaymentStatus;
import service.model.Problem;
import service.model.ReceiveRequest;
import service.model.Scenario;
import service.model.SettlementMode;
import service.model.SettlementRequest;

class Flow {
    static final String BEARER = "Bearer " + System.getenv("PAYMOCK_API_KEY");

    final ApiClient client = new ApiClient();
    final control.ApiClient controlClient = new control.ApiClient();
    final ObjectMapper mapper = client.getObjectMapper();
    final List<String> defaults = List.of(client.getBaseUri(), controlClient.getBaseUri());
    final PaymentsApi payments;

    Flow() {
        client.updateBaseUri(System.getenv("PAYMOCK_URL"));
        client.setRequestInterceptor(request -> request.header("Authorization", BEARER));
        controlClient.updateBaseUri(System.getenv("PAYMOCK_URL"));
        controlClient.setRequestInterceptor(request -> request.header("Authorization", BEARER));
        payments = new PaymentsApi(client);
    }

    static CreatePayment order(String id, String payWith) {
        return new CreatePayment()
            .orderId(id)
            .receive(new ReceiveRequest()
                .chain("bsc")
                .asset("USDT")
                .amount("1000000000000000000")
                .address("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"))
            .settlement(new SettlementRequest().mode(SettlementMode.SAME_CHAIN_MERCHANT_PAYOUT))
            .payWith(List.of(new PayWithRequest().chain("bsc").asset(payWith)))
            .expiresAt(OffsetDateTime.parse("2099-01-31T12:30:00Z"))
            .metadata(Map.of("a", 1, "b", Map.of("c", Arrays.asList(1, "two", null))));
    }

    List<Object> refused(String key, CreatePayment order) throws Exception {
        try {
            payments.createPayment(key, order, null);
        } catch (ApiException refusal) {
            var error = mapper.readValue(refusal.getResponseBody(), ErrorEnvelope.class).getError();
            var seen = new ArrayList<Object>(List.of(refusal.getCode(), error.getCode()));
            if (error.getDetails() != null) {
                seen.addAll(error.getDetails().stream().map(Problem::getField).toList());
            }
            return seen;
        }
        throw new AssertionError("not refused");
    }

    void run() throws Exception {
        var catalog = new ChainsAndAssetsApi(client);
        var webhooks = new WebhooksApi(client);
        var time = new control.api.TimeApi(controlClient);
        var overrides = new control.api.OverridesAndFaultsApi(controlClient);
        var inspection = new control.api.PaymentsApi(controlClient);
        var seen = new LinkedHashMap<String, Object>();
        seen.put("defaults", defaults);

        time.setClock(new SetClock().speed(BigDecimal.ZERO));
        seen.put("chains", catalog.listChains().getData().stream().map(Chain::getId).toList());
        seen.put("assets", catalog.listAssets("bsc").getData().stream().map(Asset::getSymbol).toList());

        var order = order("order-1001", "USDT");
        var created = payments.createPayment("order-1001-payment", order, Scenario.SCENARIO_SETTLEMENT_FAILED);
        var due = created.getAttempts().get(0).getInstructions().getAmounts().getDue();
        seen.put("created", List.of(created.getStatus(), due, created.getMetadata()));
        seen.put("pays_to", created.getAttempts().get(0).getInstructions().getInvoiceAddress().substring(0, 2));
        seen.put("expires_at", created.getExpiresAt().toEpochSecond());
        var replay = payments.createPaymentWithHttpInfo("order-1001-payment", order, Scenario.SCENARIO_SETTLEMENT_FAILED);
        var replayed = replay.getHeaders().get("idempotent-replayed").get(0);
        seen.put("replay", List.of(replayed, replay.getData().getId().equals(created.getId())));
        seen.put("conflict", refused("order-1001-payment", order("order-1002", "USDT")));
        seen.put("invalid", refused("order-1002-payment", order("order-1002", "BNB")));

        var payment = created;
        var statuses = new LinkedHashSet<PaymentStatus>(List.of(payment.getStatus()));
        while (payment.getStatus() != PaymentStatus.FAILED) {
            time.advanceClock(new Advance().seconds(BigDecimal.valueOf(5)));
            payment = payments.getPayment(created.getId());
            statuses.add(payment.getStatus());
        }
        seen.put("statuses", statuses);
        seen.put("took", Duration.between(payment.getCreatedAt(), payment.getUpdatedAt()).toSeconds());
        var attempts = payments.listAttempts(created.getId()).getData().stream();
        seen.put("attempts", attempts.map(attempt -> List.of(
            attempt.getStatus(), attempt.getDeposits().stream().map(Deposit::getStatus).toList())).toList());

        var endpoint = webhooks.createWebhookEndpoint("endpoint-1", new CreateWebhookEndpoint()
            .url("https://merchant.example/hooks")
            .addEventsItem(EventName.PAYMENT_COMPLETED)
            .addEventsItem(EventName.PAYMENT_FAILED));
        var secret = endpoint.getSecret().substring(0, 6);
        seen.put("endpoint", List.of(endpoint.getUrl(), endpoint.getEvents(), secret));
        var endpoints = webhooks.listWebhookEndpoints().getData().stream();
        seen.put("endpoints", endpoints.map(one -> one.getId().equals(endpoint.getId())).toList());

        overrides.setNext(new SetNext().scenario(control.model.Scenario.SCENARIO_NO_PAYMENT_EXPIRED));
        var overridden = payments.createPayment("order-1003-payment", order("order-1003", "USDT"), null);
        seen.put("overridden", inspection.getPaymentDetail(overridden.getId(), null).getScenario());
        overrides.addFault(new AddFault().fault("status=429"));
        seen.put("injected", refused("order-1004-payment", order("order-1004", "USDT")));

        System.out.println(mapper.writeValueAsString(seen));
    }

    public static void main(String[] arguments) throws Exception {
        new Flow().run();
    }
}
