package paymock.junit;

import java.io.*;
import java.util.UUID;
import java.util.concurrent.*;

/** The server of this JVM: the one at PAYMOCK_URL, or a process, which ends with the JVM however that ends. */
final class Server {
    static final String VERSION = "0.4.0";
    private static Process process;
    private static String url;

    private Server() {}

    /** An empty sandbox with a frozen clock. */
    static Sandbox newSandbox() {
        var url = url();
        var name = setting("PAYMOCK_SANDBOX", "test-" + UUID.randomUUID());
        var key = process == null ? setting("PAYMOCK_API_KEY", "mk_test_" + name) : "mk_test_" + name;
        var sandbox = key.startsWith("mk_test_") ? new Sandbox(url, key)
            : new Sandbox(url, key.split(",")[0] + "." + name, name);
        sandbox.freeze();
        sandbox.reset(); // one with a chosen name may have been used before
        return sandbox;
    }

    private static synchronized String url() {
        if (url == null) {
            var running = setting("PAYMOCK_URL", "");
            var server = running.isEmpty() ? start() : running;
            var live = new Sandbox(server, "mk_test_version").call("GET", "/livez", null);
            var version = live.getOrDefault("version", "below 0.2").toString();
            if (!version.startsWith(VERSION.substring(0, VERSION.lastIndexOf('.') + 1))) {
                System.err.println("paymock: the server at " + server + " is version " + version + ", this helper is " + VERSION
                    + ": install the same version");
            }
            url = server;
        }
        return url;
    }

    private static String start() {
        var file = setting("PAYMOCK_BIN", "");
        var program = file.isEmpty() ? "paymock" : new File(file).getAbsolutePath();
        var builder = new ProcessBuilder(program, "serve", "--port", "0", "--ready-file", "-", "--exit-on-stdin-close",
            "--no-access-log").redirectErrorStream(true);
        builder.environment().keySet().removeIf(name -> name.startsWith("PAYMOCK_API_KEY"));
        try {
            process = builder.start();
            var limit = CompletableFuture.runAsync(process::destroy, CompletableFuture.delayedExecutor(60, TimeUnit.SECONDS));
            var lines = process.inputReader();
            var printed = new StringBuilder();
            for (var line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("{\"url\"")) {
                    limit.cancel(false);
                    var rest = new Thread(() -> lines.lines().forEach(System.err::println));
                    rest.setDaemon(true);
                    rest.start();
                    return Json.at(Json.read(line), "url");
                }
                printed.append(line).append('\n');
            }
            throw new IllegalStateException("paymock: the server did not start:\n" + printed + program + " ended with status "
                + process.onExit().join().exitValue());
        } catch (IOException error) {
            throw new IllegalStateException("paymock: cannot start " + program
                + ": install paymock, or set PAYMOCK_BIN to an executable or PAYMOCK_URL to a server", error);
        }
    }

    private static String setting(String name, String standard) {
        var value = System.getenv().getOrDefault(name, "");
        return value.isEmpty() ? standard : value;
    }
}
