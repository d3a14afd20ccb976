package paymock.junit;

import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.extension.*;

/**
 * Gives each test a {@link Sandbox} as a parameter: its own, empty and frozen. When the test fails, payments and requests
 * are printed. One server serves all tests of a JVM.
 */
public final class PaymockExtension implements BeforeEachCallback, AfterEachCallback,
    InvocationInterceptor, ParameterResolver, TestWatcher {
    private final Map<String, Sandbox> sandboxes = new ConcurrentHashMap<>(); // by the id of the test
    private Sandbox shared;

    /** One sandbox for all tests, emptied after each: for an application that is started once. */
    public synchronized Sandbox shared() {
        shared = shared == null ? Server.newSandbox() : shared;
        return shared;
    }

    @Override
    public void beforeEach(ExtensionContext test) {
        if (shared != null) {
            sandboxes.put(test.getUniqueId(), shared);
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext test) {
        return parameter.getParameter().getType() == Sandbox.class;
    }

    @Override
    public Sandbox resolveParameter(ParameterContext parameter, ExtensionContext test) {
        test.getTestMethod().orElseThrow(
            () -> new ParameterResolutionException("a Sandbox is for methods with @Test, @BeforeEach or @AfterEach"));
        return sandboxes.computeIfAbsent(test.getUniqueId(), id -> Server.newSandbox());
    }

    @Override
    public void testFailed(ExtensionContext test, Throwable cause) {
        describe(test);
        reset(test);
    }

    @Override
    public void testSuccessful(ExtensionContext test) { reset(test); }

    @Override
    public void testAborted(ExtensionContext test, Throwable cause) { reset(test); }

    /** Dynamic tests have no TestWatcher: each that fails is described, with the sandbox of their factory. */
    @Override
    public void interceptDynamicTest(Invocation<Void> invocation, DynamicTestInvocationContext dynamic, ExtensionContext test)
        throws Throwable {
        try {
            invocation.proceed();
        } catch (Throwable cause) {
            describe(test);
            throw cause;
        }
    }

    @Override
    public void afterEach(ExtensionContext test) {
        if (test.getRequiredTestMethod().isAnnotationPresent(TestFactory.class)) {
            reset(test);
        }
    }

    private void describe(ExtensionContext test) {
        sandboxes.forEach((id, sandbox) -> {
            if (test.getUniqueId().startsWith(id)) {
                var story = test.getDisplayName() + ", in paymock at ";
                try {
                    story += sandbox.describe();
                } catch (RuntimeException gone) { // the failure itself is told all the same
                    story += sandbox.url() + ": " + gone.getMessage();
                }
                test.publishReportEntry("paymock", story);
                System.err.println(story); // as Maven and Gradle do not show entries
            }
        });
    }

    private void reset(ExtensionContext test) {
        Optional.ofNullable(sandboxes.remove(test.getUniqueId())).ifPresent(sandbox -> {
            sandbox.freeze();
            sandbox.reset();
        });
    }
}
