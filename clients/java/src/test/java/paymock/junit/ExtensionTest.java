package paymock.junit;

import static org.junit.jupiter.api.Assertions.*;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.*;
import org.junit.jupiter.api.*;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.platform.engine.reporting.ReportEntry;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.*;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;

class ExtensionTest {
    static class WithOneSandbox {
        @RegisterExtension
        static final PaymockExtension paymock = new PaymockExtension();
        static final Sandbox shared = paymock.shared();

        @RepeatedTest(2)
        void isEmptyForEachTest(Sandbox mock) {
            assertSame(shared, mock);
            mock.fault("drop");
            assertEquals(1, mock.faults().size());
        }

        @TestFactory
        List<DynamicTest> isEmptyForEachFactory(Sandbox mock) {
            isEmptyForEachTest(mock);
            return List.of(dynamicTest("fails", Assertions::fail));
        }
    }

    @RepeatedTest(2)
    void eachExecutionInAJvmUsesItsServer() {
        var stories = new ArrayList<String>();
        var listener = new SummaryGeneratingListener() {
            @Override
            public void reportingEntryPublished(TestIdentifier test, ReportEntry entry) {
                stories.add(entry.getKeyValuePairs().get("paymock"));
            }
        };
        var request = LauncherDiscoveryRequestBuilder.request().selectors(selectClass(WithOneSandbox.class)).build();
        LauncherFactory.create().execute(request, listener);
        assertEquals(2, listener.getSummary().getTestsSucceededCount());
        assertEquals(1, listener.getSummary().getTestsFailedCount());
        assertEquals(1, stories.size());
        assertTrue(stories.get(0).matches("(?s)fails, in paymock at .*, frozen\n.*\n  once        drop .*"), stories.get(0));
    }

    @Test
    void aServerUnlikePaymockIsNamed() throws IOException {
        var other = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        other.createContext("/", request -> {
            request.sendResponseHeaders(502, 0);
            request.getResponseBody().write("<html>".getBytes());
            request.close();
        });
        other.start();
        var url = "http://127.0.0.1:" + other.getAddress().getPort();
        var error = assertThrows(IllegalStateException.class, () -> new Sandbox(url, "key").now());
        assertEquals("paymock: " + url + " answers 502, unlike paymock", error.getMessage());
        other.stop(0);
    }

    @Test
    void theLinkOfASandboxOfAServerWithKeysHasItsNameOnly() {
        assertEquals("http://host/#sandbox=name", new Sandbox("host", "key.name", "name").dashboardUrl());
    }
}
