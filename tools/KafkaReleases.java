// Print the APIs that a broker of each Kafka release advertises; see kafka_releases.py.
//
//     java -cp slf4j-api.jar KafkaReleases.java RELEASE=kafka-clients.jar ...
//
// Each line of the output: release, API key, name, lowest and highest version.

import java.io.File;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;
import java.util.Collection;
import java.util.Optional;
import java.util.Set;

public class KafkaReleases {
    private static final String KEYS = "org.apache.kafka.common.protocol.ApiKeys";
    private static final String LISTENERS =
        "org.apache.kafka.common.message.ApiMessageType$ListenerType";
    // Advertised only by a broker with a telemetry plug-in (KIP-714).
    private static final Set<String> TELEMETRY =
        Set.of("GET_TELEMETRY_SUBSCRIPTIONS", "PUSH_TELEMETRY");

    public static void main(String[] arguments) throws Exception {
        for (String each : arguments) {
            String[] parts = each.split("=", 2);
            URL[] jar = {new File(parts[1]).toURI().toURL()};
            ClassLoader parent = KafkaReleases.class.getClassLoader();
            try (URLClassLoader loader = new URLClassLoader(jar, parent)) {
                print(parts[0], loader);
            }
        }
    }

    private static void print(String release, ClassLoader loader) throws Exception {
        Class<?> keys = loader.loadClass(KEYS);
        Object listener = listener(release, loader);
        for (Object key : advertised(keys, listener)) {
            String name = ((Enum<?>) key).name();
            short[] range = TELEMETRY.contains(name) ? null : range(keys, key, listener);
            if (range != null && range[0] <= range[1]) {
                short id = keys.getField("id").getShort(key);
                String[] row = {release, "" + id, name, "" + range[0], "" + range[1]};
                System.out.println(String.join("\t", row));
            }
        }
    }

    // KRaft is for production since 3.3; brokers before it are those of ZooKeeper.
    private static Object listener(String release, ClassLoader loader) throws Exception {
        int[] numbers =
            Arrays.stream(release.split("\\.")).mapToInt(Integer::parseInt).toArray();
        boolean isKraft = numbers[0] > 3 || (numbers[0] == 3 && numbers[1] >= 3);
        try {
            Class<?> types = loader.loadClass(LISTENERS);
            return types.getField(isKraft ? "BROKER" : "ZK_BROKER").get(null);
        } catch (ClassNotFoundException before28) {
            return null;
        }
    }

    private static Collection<?> advertised(Class<?> keys, Object listener)
            throws Exception {
        if (listener != null) {
            Method method = keys.getMethod("apisForListener", listener.getClass());
            return (Collection<?>) method.invoke(null, listener);
        }
        try {
            return (Collection<?>) keys.getMethod("enabledApis").invoke(null);
        } catch (NoSuchMethodException before27) {
            return Arrays.asList(keys.getEnumConstants());
        }
    }

    // Versions that are not stable are advertised only with unstable.api.versions.enable.
    private static short[] range(Class<?> keys, Object key, Object listener)
            throws Exception {
        Object found;
        try {
            found = keys.getMethod(
                "toApiVersionForApiResponse", boolean.class, listener.getClass()
            ).invoke(key, false, listener);
        } catch (NoSuchMethodException | NullPointerException before40) {
            try {
                found = keys.getMethod("toApiVersion", boolean.class).invoke(key, false);
            } catch (NoSuchMethodException before35) {
                return new short[] {
                    (short) keys.getMethod("oldestVersion").invoke(key),
                    (short) keys.getMethod("latestVersion").invoke(key)
                };
            }
        }
        Object version = ((Optional<?>) found).orElse(null);
        return version == null ? null : new short[] {
            (short) version.getClass().getMethod("minVersion").invoke(version),
            (short) version.getClass().getMethod("maxVersion").invoke(version)
        };
    }
}
