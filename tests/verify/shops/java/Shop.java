import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A shop over HTTP: `java Shop.java` delivers at `completed`; `java Shop.java bad` at `payment_finalized`: free goods. */
public class Shop {
    static final Duration TIMEOUT = Duration.ofMillis(300);
    static final long PAUSE_MS = 50;
    static final Set<String> CLOSED =
            Set.of("completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed");
    static final String BODY = """
            {"order_id": "%s",
             "receive": {"chain": "bsc", "asset": "USDT", "amount": "25000000000000000000",
                         "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
             "settlement": {"mode": "same_chain_merchant_payout"},
             "pay_with": [{"chain": "bsc", "asset": "USDT"}]}
            """;

    final String url = System.getenv("PAYMOCK_URL");
    final String apiKey = System.getenv("PAYMOCK_API_KEY");
    final HttpClient http = HttpClient.newBuilder().connectTimeout(TIMEOUT).version(HttpClient.Version.HTTP_1_1).build();
    final ScheduledExecutorService workers = Executors.newScheduledThreadPool(8);
    final Map<String, Integer> deliveries = new ConcurrentHashMap<>();
    final Set<String> ordered = ConcurrentHashMap.newKeySet();
    final Set<String> paid;

    Shop(Set<String> paid) {
        this.paid = paid;
    }

    public static void main(String[] arguments) throws IOException {
        boolean bad = arguments.length > 0 && arguments[0].equals("bad");
        Set<String> finalized =
                Set.of("payment_finalized", "settlement_pending", "settlement_submitted", "completed");
        new Shop(bad ? finalized : Set.of("completed")).serve();
    }

    void serve() throws IOException {
        int port = Integer.parseInt(System.getenv("PORT"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/orders/", exchange -> {
            String orderId = lastPart(exchange);
            if (ordered.add(orderId)) {
                workers.execute(() -> follow(orderId, null));
            }
            answer(exchange, 202, orderId);
        });
        server.createContext("/deliveries/",
                exchange -> answer(exchange, 200, "" + deliveries.getOrDefault(lastPart(exchange), 0)));
        server.createContext("/health", exchange -> answer(exchange, 200, "ok"));
        server.start();
    }

    /** Creates the payment of an order, or reads it, and does so again until it is paid or closed. */
    void follow(String orderId, String paymentId) {
        long pause = PAUSE_MS;
        try {
            HttpResponse<String> reply = send(orderId, paymentId);
            if (reply.statusCode() >= 400) {
                pause = Math.max(pause, 1000 * seconds(reply.headers().firstValue("Retry-After").orElse("0")));
            } else {
                paymentId = find("\"id\":\\s*\"(pay_\\w+)\"", reply.body());
                String status = find("\"status\":\\s*\"(\\w+)\"", reply.body()); // the first is the payment's
                if (paid.contains(status)) {
                    deliveries.merge(orderId, 1, Integer::sum);
                }
                if (paid.contains(status) || CLOSED.contains(status)) {
                    return;
                }
            }
        } catch (IOException error) {
            // no reply, or half of one: again
        } catch (InterruptedException error) {
            return;
        }
        String known = paymentId;
        workers.schedule(() -> follow(orderId, known), pause, TimeUnit.MILLISECONDS);
    }

    HttpResponse<String> send(String orderId, String paymentId) throws IOException, InterruptedException {
        String path = "/v1/payments" + (paymentId == null ? "" : "/" + paymentId);
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path))
                .timeout(TIMEOUT).header("Authorization", "Bearer " + apiKey);
        if (paymentId == null) {
            request.header("Content-Type", "application/json").header("Idempotency-Key", "payment-of-" + orderId)
                    .POST(BodyPublishers.ofString(BODY.formatted(orderId)));
        }
        return http.send(request.build(), BodyHandlers.ofString());
    }

    /** How many seconds a Retry-After asks to wait, whether it is a number or a date. */
    static long seconds(String retryAfter) {
        try {
            return Long.parseLong(retryAfter);
        } catch (NumberFormatException e) {
            var date = ZonedDateTime.parse(retryAfter, DateTimeFormatter.RFC_1123_DATE_TIME);
            return Math.max(0, Duration.between(ZonedDateTime.now(), date).toSeconds() + 1);
        }
    }

    static String find(String pattern, String text) throws IOException {
        Matcher matcher = Pattern.compile(pattern).matcher(text);
        if (!matcher.find()) {
            throw new IOException("the reply is not a payment");
        }
        return matcher.group(1);
    }

    static String lastPart(HttpExchange exchange) {
        String path = exchange.getRequestURI().getPath();
        return path.substring(path.lastIndexOf('/') + 1);
    }

    static void answer(HttpExchange exchange, int status, String text) throws IOException {
        exchange.sendResponseHeaders(status, text.length());
        exchange.getResponseBody().write(text.getBytes());
        exchange.close();
    }
}
