package paymock.junit;

import java.math.BigDecimal;
import java.time.Duration;
import java.util.*;

/** Options of a call: {@code mock.fault("drop", with().operation("createPayment").skip(1))}. */
public final class Options {
    final Map<String, Object> members = new LinkedHashMap<>();

    private Options() {}

    public static Options with() { return new Options(); }
    public Options operation(String operationId) { return put("operation", operationId); }
    public Options orderId(String orderId) { return put("order_id", orderId); }
    public Options orderIdPrefix(String beginning) { return put("order_id_prefix", beginning); }
    /** Members of the metadata of a creation. */
    public Options metadata(Map<String, ?> members) { return put("metadata", members); }
    public Options status(String status) { return put("status", status); }
    public Options scenario(String scenario) { return put("scenario", scenario); }
    public Options shown(String status) { return put("shown", status); }
    public Options skip(int requests) { return put("skip", requests); }
    /** How often it applies, 1 by default; {@code null}: until a reset. */
    public Options times(Integer times) { return put("times", times); }
    public Options count(int requests) { return put("count", requests); }
    /** Stay at each change until the application has read it. */
    public Options untilObserved() { return put("until_observed", true); }
    /** In real time, at most 60 seconds; 30 by default. */
    public Options timeout(Duration timeout) { return put("timeout", seconds(timeout)); }

    Options put(String name, Object value) {
        members.put(name, value);
        return this;
    }

    static BigDecimal seconds(Duration duration) { return BigDecimal.valueOf(duration.toMillis(), 3); }
}
