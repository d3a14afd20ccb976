package paymock.junit;

/** A wait ended without what it waited for. The message says where the payment stands, and what was awaited. */
public final class NotReached extends RuntimeException {
    NotReached(String message) { super(message); }
}
