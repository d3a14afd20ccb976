// What scripts/release runs with the jar.
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.URI;
import java.net.http.*;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import paymock.junit.*;

@ExtendWith(PaymockExtension.class)
class PaymentTest {
    @Test
    void aPaymentIsCompleted(Sandbox mock) throws Exception {
        var creation = HttpRequest.newBuilder(URI.create(mock.url() + "/v1/payments"))
            .headers("Authorization", "Bearer " + mock.apiKey(), "Content-Type", "application/json",
                "Idempotency-Key", "payment-of-1001")
            .POST(HttpRequest.BodyPublishers.ofFile(Path.of("order.json"))).build();
        HttpClient.newHttpClient().send(creation, HttpResponse.BodyHandlers.ofString());
        mock.advance(Duration.ofSeconds(45));
        assertEquals("completed", mock.payments().get(0).get("status"));
    }
}
