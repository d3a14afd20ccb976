package paymock.junit;

import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.time.*;
import java.util.*;
import java.util.stream.Collectors;

/**
 * What belongs to one API key of a server, and its clock. Payments, requests and fault rules are as the API sends them:
 * see {@link Json#at}. {@code orderOrId} is a payment id, or an order, for its newest payment. A call that the server refuses
 * throws {@link PaymockException}, and a wait that ends without result {@link NotReached}. Thread-safe.
 */
public record Sandbox(String url, String apiKey, String name) {
    private static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    /** {@code name} is that in a key {@code KEY.NAME} of a server with keys, or null. */
    public Sandbox {
        url = (url.contains("://") ? url : "http://" + url).replaceFirst("/+$", "");
    }

    public Sandbox(String url, String apiKey) { this(url, apiKey, null); }

    @Override
    public String toString() { return "Sandbox of " + url; } // without the key

    /** The page of this sandbox. */
    public String dashboardUrl() {
        return url + (apiKey.startsWith("mk_test_") ? "/#key=" + apiKey : name == null ? "/" : "/#sandbox=" + name);
    }

    public Instant now() { return Instant.parse(Json.at(call("GET", "/_mock/clock", null), "now")); }
    public void freeze() { speed(0); }
    /** Sets the clock of an empty sandbox to a time, at which it stands still. */
    public void freeze(Instant at) { call("PUT", "/_mock/clock", Map.of("speed", 0, "now", at.toString())); }
    /** Sets the speed of the clock, relative to real time. */
    public void speed(double factor) { call("PUT", "/_mock/clock", Map.of("speed", factor)); }
    /** Advances the clock, frozen or not, and returns the new time. */
    public Instant advance(Duration time) {
        return Instant.parse(Json.at(call("POST", "/_mock/clock/advance", Map.of("seconds", Options.seconds(time))), "now"));
    }

    /** Advances one payment to a status, to the {@code "next"} change or to the {@code "end"}, and returns it. */
    public Map<String, Object> advanceTo(String orderOrId, String to, Options... options) {
        var reply = reached(call("POST", path(orderOrId) + "/advance", one(options).put("to", to).members));
        return reply.containsKey("observed") ? Json.at(reply, "payment") : reply;
    }

    /** Sets the scenario of the next payments. Options: {@code times}, {@code orderId},
     * {@code orderIdPrefix}, {@code metadata}. */
    public void next(String scenario, Options... options) {
        call("POST", "/_mock/next", one(options).put("scenario", scenario).members);
    }
    /** The same with a scenario of your own, which has the fields of a file of scenarios. */
    public void next(Map<String, ?> course, Options... options) {
        call("POST", "/_mock/next", one(options).put("course", course).members);
    }

    /** Adds a fault rule, and returns it. Options: {@code operation}, {@code orderId},
     * {@code orderIdPrefix}, {@code skip}, {@code times}. */
    public Map<String, Object> fault(String fault, Options... options) {
        return call("POST", "/_mock/faults", one(options).put("fault", fault).members);
    }
    /** The fault rules, each with how many requests it has {@code seen}, and to how many it was {@code applied}. */
    public List<Map<String, Object>> faults() { return Json.at(call("GET", "/_mock/faults", null), "data"); }

    /** Simulates a deposit of raw units, a BigInteger or a string of digits, and returns the payment. */
    public Map<String, Object> deposit(String orderOrId, Object amount) {
        return call("POST", path(orderOrId) + "/deposits", Map.of("amount", amount.toString()));
    }
    /** The same in another asset than the payment asks for. */
    public Map<String, Object> deposit(String orderOrId, Object amount, String asset) {
        return call("POST", path(orderOrId) + "/deposits", Map.of("amount", amount.toString(), "asset", asset));
    }

    /** The payments, newest first. Options: {@code status}, {@code scenario}, {@code orderId}. */
    public List<Map<String, Object>> payments(Options... filter) {
        var page = call("GET", "/_mock/payments" + query(one(filter).put("limit", 200)), null);
        List<Map<String, Object>> payments = Json.at(page, "data");
        if (page.get("next_cursor") != null) {
            payments.addAll(payments(one(filter).put("cursor", page.get("next_cursor"))));
        }
        return payments;
    }
    /** A payment as the service shows it. The read does not appear in {@link #requests}. */
    public Map<String, Object> payment(String orderOrId) { return Json.at(call("GET", path(orderOrId), null), "payment"); }
    /** The same, so long after its creation: no clock moves. */
    public Map<String, Object> payment(String orderOrId, Duration at) {
        return Json.at(call("GET", path(orderOrId) + "?at=" + Options.seconds(at), null), "payment");
    }
    /** The last 1,000 requests of the application, newest first. */
    public List<Map<String, Object>> requests() { return Json.at(call("GET", "/_mock/requests?limit=1000", null), "data"); }

    /** Waits until the application has created a payment of this order. Option: {@code timeout}. */
    public Map<String, Object> waitFor(String orderId, Options... options) { return waitFor(orderId, null, options); }
    /** Waits until the payment has reached the status; one of an order need not exist yet. Option: {@code timeout}. */
    public Map<String, Object> waitFor(String orderOrId, String status, Options... options) {
        var query = query(one(options).put("order_id", orderOrId).put("status", status));
        return Json.at(reached(call("GET", "/_mock/wait" + query, null)), "payment");
    }
    /** Waits for such requests. Options: {@code count}, {@code operation}, {@code orderId}, {@code shown}, {@code timeout}. */
    public List<Map<String, Object>> waitForRequests(Options... options) {
        return Json.at(reached(call("GET", "/_mock/requests/wait" + query(one(options)), null)), "data");
    }

    /** Payments with their timelines, fault rules and requests as text, without API keys and addresses. */
    public String describe() { return send("GET", "/_mock/story", null); }

    /** Empties the sandbox. A frozen one stays frozen. */
    public void reset() {
        var speed = Json.at(call("GET", "/_mock/clock", null), "speed");
        call("POST", "/_mock/reset", null);
        call("PUT", "/_mock/clock", Map.of("speed", speed));
    }

    /** Any call of the server, with a body or null. The reply is empty where there is none. */
    public Map<String, Object> call(String method, String path, Map<String, ?> body) {
        var reply = send(method, path, body);
        return reply.isEmpty() ? Map.of() : Json.at(Json.read(reply));
    }

    private String send(String method, String path, Map<String, ?> body) {
        var content = body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(Json.write(body));
        var request = HttpRequest.newBuilder(URI.create(url + path)).method(method, content).timeout(Duration.ofSeconds(70))
            .header("Authorization", "Bearer " + apiKey).header("Content-Type", "application/json").build();
        try {
            var reply = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
            var status = reply.statusCode();
            var isText = reply.headers().firstValue("Content-Type").orElse("").startsWith("text/plain");
            if (status < 300 && (status == 204 || isText || reply.body().startsWith("{"))) {
                return reply.body();
            } else if (status < 300 || !reply.body().startsWith("{\"error\"")) {
                throw new IllegalStateException("paymock: " + url + " answers " + status + ", unlike paymock");
            }
            Map<String, Object> error = Json.at(Json.read(reply.body()), "error");
            List<Map<String, Object>> details = Json.at(error.getOrDefault("details", List.of()));
            throw new PaymockException(status, Json.at(error, "code"), details.stream()
                .map(problem -> "\n  " + problem.get("field") + ": " + problem.get("message"))
                .collect(Collectors.joining("", method + " " + path + " was refused with "
                    + status + " " + error.get("code") + ": " + error.get("message"), "")), details);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(interrupted);
        } catch (IOException error) {
            throw new UncheckedIOException("cannot reach " + url + ": is `paymock serve` running there?", error);
        }
    }

    /** The reply to a call that waits, unless it says how the wait ended without result. */
    private static Map<String, Object> reached(Map<String, Object> reply) {
        if (Boolean.FALSE.equals(reply.get("reached")) || Boolean.FALSE.equals(reply.get("observed"))) {
            throw new NotReached(String.valueOf(reply.get("message")));
        }
        return reply;
    }

    private static String path(String orderOrId) { return "/_mock/payments/" + encode(orderOrId); }

    private static Options one(Options... options) {
        var one = Options.with();
        List.of(options).forEach(option -> one.members.putAll(option.members));
        return one;
    }

    private static String query(Options options) {
        return options.members.entrySet().stream().filter(option -> option.getValue() != null)
            .map(option -> option.getKey() + "=" + encode(option.getValue().toString())).collect(Collectors.joining("&", "?", ""));
    }

    private static String encode(String text) { return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20"); }
}
