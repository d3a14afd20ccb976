package paymock.junit;

import java.math.BigDecimal;
import java.util.*;
import java.util.stream.*;

/** A sandbox as text: its last payments with their timelines, its fault rules and its last requests. */
final class Description {
    private static final String SECRET = "(0[xX])?[0-9a-fA-F]{33,}|(mk_|whsec_)[\\w.-]+";

    private Description() {}

    static String of(Sandbox mock) {
        var clock = mock.call("GET", "/_mock/clock", null);
        var isFrozen = Json.<BigDecimal>at(clock, "speed").signum() == 0;
        var lines = new ArrayList<>(List.of(clock.get("now") + (isFrozen ? ", frozen" : "")));
        for (var payment : last(5, mock.payments())) {
            var detail = mock.call("GET", "/_mock/payments/" + payment.get("id"), null);
            Map<String, Object> attempt = Json.at(payment, "attempts", 0), instructions = Json.at(attempt, "instructions");
            lines.add(line("  " + payment.get("id"), payment.get("status"), detail.get("scenario"),
                "order " + payment.get("order_id"), "due " + Json.at(instructions, "amounts", "due"), instructions.get("asset")));
            for (var change : list(detail, "timeline")) {
                var seconds = Json.<BigDecimal>at(change, "offset_seconds").stripTrailingZeros().toPlainString();
                lines.add("    %s %5s s  %s".formatted(change.get("reached") == Boolean.TRUE ? "x" : " ", seconds, change.get("event")));
            }
            for (var deposit : list(attempt, "deposits")) {
                lines.add(line("    deposit", deposit.get("amount"), deposit.get("asset"), deposit.get("status")));
            }
        }
        for (var rule : mock.faults()) {
            lines.add(line("  fault rule", rule.get("fault"), rule.get("operation"), rule.get("order_id"),
                "skip " + rule.get("skip"), "seen " + rule.get("seen"), "applied " + rule.get("applied")));
        }
        for (var request : last(20, mock.requests())) {
            var isLost = request.get("status").equals(BigDecimal.ZERO);
            lines.add(line("  " + (isLost ? "lost" : request.get("status")), request.get("method"), request.get("path"),
                request.get("shown"), request.get("error"), request.get("message"), request.get("idempotency"),
                request.get("fault") == null ? null : "fault " + request.get("fault")));
            list(request, "details").forEach(one -> lines.add("    " + one.get("field") + ": " + one.get("message")));
        }
        return lines.stream()
            .map(line -> line.replace(mock.apiKey(), "***").replaceAll(SECRET, "***").replaceAll("[\\p{Cc}\\p{Cf}]", "?"))
            .map(line -> line.length() > 160 ? line.substring(0, 160) + "..." : line).collect(Collectors.joining("\n"));
    }

    private static String line(Object... words) {
        return Stream.of(words).filter(Objects::nonNull).map(Object::toString).collect(Collectors.joining("  "));
    }

    private static List<Map<String, Object>> list(Map<String, Object> from, String name) {
        return Json.at(from.getOrDefault(name, List.of()));
    }

    /** The last of what is listed newest first, in the order in which they came. */
    private static List<Map<String, Object>> last(int most, List<Map<String, Object>> newestFirst) {
        var last = new ArrayList<>(newestFirst.subList(0, Math.min(most, newestFirst.size())));
        Collections.reverse(last);
        return last;
    }
}
