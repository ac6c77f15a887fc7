package dev.coterie.example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * A JUnit 5 extension: one server for all test classes, reset before each test.
 *
 * <pre>{@code
 * @ExtendWith(Coterie.class)
 * class BillingTest {
 *     @Test
 *     void test(Coterie.Server kafka) { ... }
 * }
 * }</pre>
 *
 * The environment variable COTERIE is the path of the command, if it is not on PATH.
 */
public final class Coterie implements BeforeEachCallback, ParameterResolver {

    @Override
    public void beforeEach(ExtensionContext context) {
        server(context).post("/v1/reset", Map.of());
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Server.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return server(context);
    }

    /** JUnit closes the root context, and the server with it, after all test classes. */
    private static Server server(ExtensionContext context) {
        return context.getRoot()
                .getStore(Namespace.create(Coterie.class))
                .getOrComputeIfAbsent(Server.class, each -> new Server(), Server.class);
    }

    /** A running server and its control API. */
    public static final class Server implements AutoCloseable {

        private static final String READY = "coterie ready on ";
        private static final String CONTROL = "coterie control on ";

        private final ObjectMapper json = new ObjectMapper();
        private final HttpClient http =
                HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        private final Process process;
        private final String bootstrapServers;
        private final String control;

        Server() {
            try {
                process = new ProcessBuilder(
                                System.getenv().getOrDefault("COTERIE", "coterie"),
                                "serve", "--memory",
                                "--listen", "127.0.0.1:0",
                                "--control", "127.0.0.1:0",
                                "--set", "group.initial.rebalance.delay.ms=0")
                        .redirectError(Redirect.INHERIT)
                        .start();
                BufferedReader output =
                        new BufferedReader(new InputStreamReader(process.getInputStream()));
                bootstrapServers = after(READY, output.readLine());
                control = after(CONTROL, output.readLine());
            } catch (IOException error) {
                throw new UncheckedIOException("coterie serve did not start", error);
            }
        }

        private static String after(String prefix, String line) {
            if (line == null || !line.startsWith(prefix)) {
                throw new IllegalStateException("coterie serve printed " + line);
            }
            return line.substring(prefix.length());
        }

        public String bootstrapServers() {
            return bootstrapServers;
        }

        public void createTopic(String name, Map<String, String> config) {
            post("/v1/topics", Map.of("name", name, "config", config));
        }

        public void produce(String topic, String... values) {
            List<Map<String, String>> records =
                    List.of(values).stream().map(value -> Map.of("value", value)).toList();
            post("/v1/topics/" + topic + "/records", Map.of("records", records));
        }

        /** Starts a fault; returns its id. */
        public int fault(Map<String, Object> fault) {
            return post("/v1/faults", fault).get("id").asInt();
        }

        public int hits(int fault) {
            return get("/v1/faults/" + fault).get("hits").asInt();
        }

        public void advance(Duration duration) {
            post("/v1/clock/advance", Map.of("ms", duration.toMillis()));
        }

        public JsonNode get(String path) {
            return send(HttpRequest.newBuilder().GET(), path);
        }

        public JsonNode post(String path, Object body) {
            try {
                String text = json.writeValueAsString(body);
                return send(
                        HttpRequest.newBuilder()
                                .header("Content-Type", "application/json")
                                .POST(BodyPublishers.ofString(text)),
                        path);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        private JsonNode send(HttpRequest.Builder request, String path) {
            try {
                var response = http.send(
                        request.uri(URI.create(control + path))
                                .timeout(Duration.ofSeconds(60))
                                .build(),
                        BodyHandlers.ofString());
                if (response.statusCode() >= 400) {
                    throw new IllegalStateException(path + ": " + response.body());
                }
                return json.readTree(response.body());
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void close() {
            process.destroy();
            process.onExit().join();
        }
    }
}
