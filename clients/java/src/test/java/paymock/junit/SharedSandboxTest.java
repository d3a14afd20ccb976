package paymock.junit;

import static org.junit.jupiter.api.Assertions.*;

import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.extension.RegisterExtension;

class SharedSandboxTest {
    @RegisterExtension
    static final PaymockExtension paymock = new PaymockExtension();
    static final Sandbox shared = paymock.shared();

    @RepeatedTest(2)
    void aSharedSandboxIsEmptyForEachTest(Sandbox mock) {
        assertSame(shared, mock);
        mock.fault("drop");
        assertEquals(1, mock.faults().size());
    }
}
