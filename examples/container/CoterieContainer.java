import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

import com.github.dockerjava.api.command.InspectContainerResponse;

/** Coterie in a container, by Testcontainers for Java. */
public class CoterieContainer extends GenericContainer<CoterieContainer> {

    private static final int KAFKA_PORT = 9092;
    private static final int CONTROL_PORT = 9095;
    private static final String TOKEN = "for-tests-only";

    private final HttpClient http = HttpClient.newHttpClient();

    public CoterieContainer() {
        super(DockerImageName.parse("coterie"));
        withExposedPorts(KAFKA_PORT, CONTROL_PORT);
        withEnv("COTERIE_CONTROL_TOKEN", TOKEN);
        waitingFor(Wait.forLogMessage(".*coterie control on.*", 1));
    }

    public String getBootstrapServers() {
        return getHost() + ":" + getMappedPort(KAFKA_PORT);
    }

    /** Advertises the port that the host has mapped, before a test connects. */
    @Override
    protected void containerIsStarted(InspectContainerResponse info) {
        send("PUT", "/v1/advertised",
                "{\"host\": \"%s\", \"port\": %d}"
                        .formatted(getHost(), getMappedPort(KAFKA_PORT)));
    }

    /** Sends a request to the control API; returns the body of its response. */
    public String send(String method, String path, String json) {
        var request = HttpRequest.newBuilder(
                        URI.create("http://%s:%d%s"
                                .formatted(getHost(), getMappedPort(CONTROL_PORT), path)))
                .header("Authorization", "Bearer " + TOKEN)
                .header("Content-Type", "application/json")
                .method(method, BodyPublishers.ofString(json))
                .build();
        try {
            var response = http.send(request, BodyHandlers.ofString());
            if (response.statusCode() >= 400) {
                throw new IllegalStateException(path + ": " + response.body());
            }
            return response.body();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }
}
