package shop;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.Collections;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;

/** Takes orders, polls their payments, and delivers each order once, when its payment is completed. */
public class Shop {
    static final Set<String> FINAL = Set.of("completed", "underpaid_expired", "overpaid_review", "manual_review", "failed");

    /** An order. Its payment has no id here until the service has answered. */
    static final class Order {
        String paymentId;
        volatile String status = "awaiting_payment";
        final AtomicBoolean isDelivered = new AtomicBoolean();
    }

    final HttpClient http = HttpClient.newHttpClient();
    final Map<String, Order> orders = new ConcurrentHashMap<>(); // a real shop has a database
    final Queue<String> delivered = new ConcurrentLinkedQueue<>(); // the delivery log
    final String url;
    final String apiKey;
    final Duration timeout;

    public Shop(String url, String apiKey, Duration timeout) {
        this.url = url;
        this.apiKey = apiKey;
        this.timeout = timeout;
    }

    /** Takes an order, unless it is known, and returns the id of its payment. After an exception, order again. */
    public String order(String orderId) throws IOException, InterruptedException {
        var order = orders.computeIfAbsent(orderId, id -> new Order()); // before anything can fail
        synchronized (order) { // so that customer and worker do not create it at once
            if (order.paymentId == null) {
                var body = """
                    {
                      "order_id": "%s",
                      "receive": {
                        "chain": "bsc",
                        "asset": "USDT",
                        "amount": "25000000000000000000",
                        "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
                      },
                      "settlement": {"mode": "same_chain_merchant_payout"},
                      "pay_with": [{"chain": "bsc", "asset": "USDT"}]
                    }
                    """.formatted(orderId);
                var request = request("/v1/payments")
                    .header("Content-Type", "application/json")
                    .header("Idempotency-Key", "payment-of-" + orderId) // the same in every attempt
                    .POST(BodyPublishers.ofString(body));
                order.paymentId = member(send(request), "id");
            }
            return order.paymentId;
        }
    }

    /** Reads the payment of an order once, and delivers if it is completed. Returns whether the order stays open. */
    public boolean poll(String orderId) {
        var order = orders.get(orderId);
        try {
            order.status = member(send(request("/v1/payments/" + order(orderId))), "status");
        } catch (IOException | InterruptedException unknown) { // says nothing about the payment: the order stays open
            System.err.println(orderId + " stays open: " + unknown);
        }
        if (order.status.equals("completed") && order.isDelivered.compareAndSet(false, true)) {
            delivered.add(orderId);
        }
        return !FINAL.contains(order.status); // an expired payment stays open: the customer may pay late
    }

    public String status(String orderId) {
        return orders.get(orderId).status;
    }

    public int deliveries(String orderId) {
        return Collections.frequency(delivered, orderId);
    }

    HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(url + path)).timeout(timeout).header("Authorization", "Bearer " + apiKey);
    }

    /** The body of a reply that says success. All else is an exception, after the pause that the service asks for. */
    String send(HttpRequest.Builder request) throws IOException, InterruptedException {
        var reply = http.send(request.build(), BodyHandlers.ofString());
        Thread.sleep(1000 * seconds(reply.headers().firstValue("Retry-After").orElse("0")));
        if (reply.statusCode() >= 300) {
            throw new IOException(reply.statusCode() + " " + reply.body());
        }
        return reply.body();
    }

    /** How long to wait, at most a minute: the header is a number of seconds or an HTTP date. */
    static long seconds(String retryAfter) {
        var isNumber = retryAfter.matches("[0-9]{1,9}");
        try {
            var date = isNumber ? null : DateTimeFormatter.RFC_1123_DATE_TIME.parse(retryAfter, Instant::from);
            var seconds = isNumber ? Long.parseLong(retryAfter) : Duration.between(Instant.now(), date).toSeconds() + 1;
            return Math.max(0, Math.min(seconds, 60));
        } catch (DateTimeParseException another) {
            return 0;
        }
    }

    static String member(String json, String name) throws IOException {
        var member = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(json); // a JSON library does better
        if (!member.find()) { // a proxy's page, with status 200
            throw new IOException("no " + name + " in " + json);
        }
        return member.group(1);
    }

    // The shop as a program: HTTP, and workers that poll

    static final ScheduledExecutorService WORKERS = Executors.newScheduledThreadPool(16);

    void follow(String orderId, int pause) {
        WORKERS.schedule(() -> {
            if (poll(orderId)) {
                follow(orderId, pause);
            }
        }, pause, TimeUnit.MILLISECONDS);
    }

    /** Answers POST /orders/ID, GET /deliveries/ID and GET /ready. */
    void answer(HttpExchange exchange, int pause) throws IOException {
        var path = exchange.getRequestURI().getRawPath().split("/");
        var id = path[path.length - 1];
        var status = 200;
        var text = "ready";
        try {
            switch (path[1]) {
                case "orders" -> {
                    if (orders.putIfAbsent(id, new Order()) == null) {
                        follow(id, pause);
                    }
                    text = order(id);
                }
                case "deliveries" -> text = String.valueOf(deliveries(id));
            }
        } catch (IOException | InterruptedException problem) {
            status = 502;
            text = "Please order again: " + problem;
        }
        var bytes = text.getBytes();
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    static String setting(String name, String standard) {
        return System.getenv().getOrDefault(name, standard);
    }

    public static void main(String[] args) throws IOException {
        var timeout = Duration.ofMillis(Integer.parseInt(setting("TIMEOUT_MS", "10000")));
        var shop = new Shop(setting("PAYMOCK_URL", "http://127.0.0.1:8402"), setting("PAYMOCK_API_KEY", "mk_test_demo"), timeout);
        var pause = Integer.parseInt(setting("POLL_MS", "2000"));
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(setting("PORT", "8000"))), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> shop.answer(exchange, pause));
        server.start();
    }
}
