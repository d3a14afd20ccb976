package paymock.junit;

import java.util.*;

/** The server refused a call. */
public final class PaymockException extends RuntimeException {
    public final int status;
    public final String code;
    /** The invalid fields, each with {@code field} and {@code message}. */
    public final transient List<Map<String, Object>> details;

    PaymockException(int status, String code, String message, List<Map<String, Object>> details) {
        super(message);
        this.status = status;
        this.code = code;
        this.details = details;
    }
}
