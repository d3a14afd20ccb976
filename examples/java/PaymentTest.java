// PaymentTest.java
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.UUID;

/** Each test has a sandbox of its own, which stands still. With JUnit, they would be methods with @Test. */
public class PaymentTest {
    static final String URL = System.getenv().getOrDefault("PAYMOCK_URL", "http://127.0.0.1:8402");
    static final String ORDER = """
        {
          "order_id": "order-1001",
          "receive": {
            "chain": "bsc",
            "asset": "USDT",
            "amount": "1000000000000000000",
            "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
          },
          "settlement": {"mode": "same_chain_merchant_payout"},
          "pay_with": [{"chain": "bsc", "asset": "USDT"}]
        }
        """;

    final HttpClient http = HttpClient.newHttpClient();
    final String apiKey = "mk_test_" + UUID.randomUUID();

    PaymentTest() throws Exception {
        call("PUT", "/_mock/clock", "{\"speed\": 0}");
    }

    void aPaymentIsCompleted() throws Exception {
        var payment = call("POST", "/v1/payments", ORDER);
        expect("awaiting_payment", member(payment, "status"));
        call("POST", "/_mock/clock/advance", "{\"seconds\": 45}");
        payment = call("GET", "/v1/payments/" + member(payment, "id"), null);
        expect("completed", member(payment, "status"));
    }

    void aRetryAfterALostReplyMakesNoSecondPayment() throws Exception {
        call("POST", "/_mock/next", "{\"fault\": \"drop\"}");
        try {
            throw new AssertionError("a reply came: " + call("POST", "/v1/payments", ORDER));
        } catch (IOException lost) {
            var payment = call("POST", "/v1/payments", ORDER);
            var newest = call("GET", "/_mock/payments", null);
            expect(member(payment, "id"), member(newest, "id"));
            expect("1", String.valueOf(newest.split("\"id\":\"pay_").length - 1));
        }
    }

    String call(String method, String path, String body) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(URL + path))
            .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body))
            .header("Authorization", "Bearer " + apiKey)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", "order-1001-payment")
            .build();
        var reply = http.send(request, BodyHandlers.ofString());
        if (reply.statusCode() >= 300) {
            throw new AssertionError(method + " " + path + ": " + reply.statusCode() + " " + reply.body());
        }
        return reply.body();
    }

    static String member(String json, String name) {
        return json.replaceFirst("(?s).*?\"" + name + "\":\"([^\"]*)\".*", "$1"); // a JSON library does better
    }

    static void expect(String expected, String actual) {
        if (!expected.equals(actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }

    public static void main(String[] args) throws Exception {
        new PaymentTest().aPaymentIsCompleted();
        new PaymentTest().aRetryAfterALostReplyMakesNoSecondPayment();
        System.out.println("2 tests passed");
    }
}
