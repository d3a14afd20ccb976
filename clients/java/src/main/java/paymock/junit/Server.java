package paymock.junit;

import java.io.*;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.extension.ExtensionContext;

/** The server of this JVM: the one at PAYMOCK_URL, or a process, which ends with the JVM however that ends. */
final class Server implements ExtensionContext.Store.CloseableResource {
    static final String VERSION = "0.2.0";
    private static Server current;

    private final Process process;
    private final String url;

    private Server() {
        var running = setting("PAYMOCK_URL", "");
        var program = setting("PAYMOCK_BIN", "paymock");
        try {
            process = running.isEmpty() ? start(program) : null;
            url = process == null ? running : Json.at(Json.read(process.inputReader().readLine()), "url");
            var version = String.valueOf(new Sandbox(url, "mk_test_version").call("GET", "/livez", null).get("version"));
            if (!version.startsWith(VERSION.substring(0, VERSION.lastIndexOf('.') + 1))) {
                System.err.println("paymock: the server at " + url + " is version " + version + ", this helper is " + VERSION
                    + ": install the same version");
            }
        } catch (IOException | RuntimeException error) {
            throw new IllegalStateException(running.isEmpty()
                ? "cannot start " + program + ": install paymock, or set PAYMOCK_BIN to its path or PAYMOCK_URL to a server"
                : "no server of paymock answers at " + running, error);
        }
    }

    static synchronized Server get() {
        current = current == null ? new Server() : current;
        return current;
    }

    /** An empty sandbox with a frozen clock. */
    Sandbox newSandbox() {
        var name = setting("PAYMOCK_SANDBOX", "test-" + UUID.randomUUID());
        var key = process == null ? setting("PAYMOCK_API_KEY", "mk_test_" + name) : "mk_test_" + name;
        var sandbox = new Sandbox(url, key.startsWith("mk_test_") ? key : key.split(",")[0] + "." + name);
        sandbox.freeze();
        sandbox.reset(); // one with a chosen name may have been used before
        return sandbox;
    }

    private static Process start(String program) throws IOException {
        var builder = new ProcessBuilder(program, "serve", "--port", "0", "--ready-file", "-", "--exit-on-stdin-close",
            "--no-access-log").redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().keySet().removeIf(name -> name.startsWith("PAYMOCK_API_KEY"));
        return builder.start();
    }

    private static String setting(String name, String standard) { return System.getenv().getOrDefault(name, standard); }

    @Override
    public void close() throws IOException, InterruptedException {
        synchronized (Server.class) {
            current = null;
        }
        if (process != null) {
            process.getOutputStream().close();
            process.waitFor(10, TimeUnit.SECONDS);
        }
    }
}
