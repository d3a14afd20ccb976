package paymock.junit;

import static org.junit.jupiter.api.Assertions.*;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.math.BigDecimal;
import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import java.util.stream.Stream;
import org.junit.jupiter.api.*;

/** The cases of clients/acceptance.json, which the helpers of all languages pass. */
class AcceptanceTest {
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final String ORDER = """
        {"order_id": "%s", "settlement": {"mode": "same_chain_merchant_payout"},
         "receive": {"chain": "bsc", "asset": "USDT", "amount": "1000000000000000000",
                     "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
         "pay_with": [{"chain": "bsc", "asset": "USDT"}]}""";

    @TestFactory
    Stream<DynamicTest> cases() throws IOException {
        var file = Path.of(System.getProperty("acceptance", "../acceptance.json"));
        List<Map<String, Object>> cases = Json.at(Json.read(Files.readString(file)), "cases");
        return cases.stream().map(one -> dynamicTest((String) one.get("name"), () -> new Case().run(Json.at(one, "steps"))));
    }

    private static final class Case {
        final Sandbox mock = Server.newSandbox();
        final Instant start = mock.now();
        final Map<String, String> ids = new HashMap<>();

        void run(List<Map<String, Object>> steps) {
            for (var step : steps) {
                if (step.containsKey("refused")) {
                    var refused = assertThrows(PaymockException.class, () -> call(step));
                    matches(Map.of("status", new BigDecimal(refused.status), "code", refused.code), step.get("refused"));
                } else if (step.containsKey("notReached")) {
                    check(assertThrows(NotReached.class, () -> call(step)).getMessage(), step);
                } else if (step.containsKey("lost")) {
                    assertThrows(IOException.class, () -> call(step));
                } else {
                    check(assertDoesNotThrow(() -> call(step)), step);
                }
            }
            mock.reset();
        }

        Object call(Map<String, Object> step) throws Exception {
            List<Object> arguments = step.containsKey("arguments") ? Json.at(step, "arguments") : List.of();
            var options = Options.with();
            var first = arguments.isEmpty() ? null : ids.getOrDefault(arguments.get(0).toString(), arguments.get(0).toString());
            var second = arguments.size() < 2 ? null : arguments.get(1).toString();
            if (!arguments.isEmpty() && arguments.get(arguments.size() - 1) instanceof Map<?, ?> last) {
                last.forEach((name, value) -> options.put(name.toString().replaceAll("([A-Z])", "_$1").toLowerCase(), value));
            }
            return switch (Json.<String>at(step, "call")) {
                case "advance" -> mock.advance(Duration.ofMillis(new BigDecimal(first).movePointRight(3).longValueExact()));
                case "advanceTo" -> mock.advanceTo(first, second, options);
                case "create" -> create(first);
                case "deposit" -> arguments.size() < 3 ? mock.deposit(first, second)
                    : mock.deposit(first, second, arguments.get(2).toString());
                case "describe" -> mock.describe();
                case "fault" -> mock.fault(first, options);
                case "faults" -> mock.faults();
                case "freeze" -> {
                    mock.freeze(Instant.parse(options.members.get("at").toString()));
                    yield "";
                }
                case "next" -> {
                    if (arguments.get(0) instanceof Map<?, ?>) {
                        mock.next(Json.<Map<String, Object>>at(arguments, 0));
                    } else {
                        mock.next(first, options);
                    }
                    yield "";
                }
                case "now" -> mock.now();
                case "payment" -> options.members.isEmpty() ? mock.payment(first)
                    : mock.payment(first, Duration.ofSeconds(new BigDecimal(options.members.get("at").toString()).longValueExact()));
                case "payments" -> mock.payments(options);
                case "read" -> application("GET", "/v1/payments/" + ids.get("$" + first), first, "");
                case "requests" -> mock.requests();
                case "reset" -> {
                    mock.reset();
                    yield "";
                }
                case "waitFor" -> mock.waitFor(first, second, options);
                case "waitForRequests" -> mock.waitForRequests(options);
                default -> fail("unknown call in " + step);
            };
        }

        Object create(String order) throws Exception {
            var payment = application("POST", "/v1/payments", order, ORDER.formatted(order));
            ids.put("$" + order, Json.at(payment, "id"));
            return payment;
        }

        Object application(String method, String path, String order, String body) throws Exception {
            var reply = HTTP.send(HttpRequest.newBuilder(URI.create(mock.url() + path))
                .method(method, HttpRequest.BodyPublishers.ofString(body)).header("Authorization", "Bearer " + mock.apiKey())
                .header("Content-Type", "application/json").header("Idempotency-Key", "payment-of-" + order).build(),
                HttpResponse.BodyHandlers.ofString());
            if (reply.statusCode() >= 300) {
                throw new PaymockException(reply.statusCode(), Json.at(Json.read(reply.body()), "error", "code"), "", List.of());
            }
            return Json.read(reply.body());
        }

        void check(Object result, Map<String, Object> step) {
            matches(result, step.getOrDefault("result", Map.of()));
            if (step.containsKey("seconds")) {
                var seconds = new BigDecimal(Duration.between(start, (Instant) result).toMillis()).movePointLeft(3);
                assertEquals(0, seconds.compareTo(Json.at(step, "seconds")), step + ": " + seconds);
            }
            var place = 0;
            for (var text : Json.<List<String>>at(step.getOrDefault("contains", List.of()))) {
                place = result.toString().indexOf(text, place);
                assertTrue(place >= 0, text + " is not in " + result);
            }
            for (var text : Json.<List<String>>at(step.getOrDefault("lacks", List.of()))) {
                assertFalse(result.toString().contains(text), text);
            }
        }

        void matches(Object result, Object expected) {
            if (expected instanceof Map<?, ?> members) {
                members.forEach((name, value) -> matches(((Map<?, ?>) result).get(name), value));
            } else if (expected instanceof List<?> list) {
                assertEquals(list.size(), ((List<?>) result).size(), result.toString());
                for (var index = 0; index < list.size(); index++) {
                    matches(((List<?>) result).get(index), list.get(index));
                }
            } else {
                assertEquals(expected, result);
            }
        }
    }
}
