// Print what a release of Apache Kafka defines in classes; see kafka_changes.py.
//
//     java -cp 'FOLDER/*' KafkaDefinitions.java
//
// Each line of the output: what it is, its name, and its value.

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

public class KafkaDefinitions {
    private static final String[][] CONFIGS = {
        {"broker", "org.apache.kafka.server.config.AbstractKafkaConfig"},
        {"topic", "org.apache.kafka.storage.internals.log.LogConfig"},
        {"group", "org.apache.kafka.coordinator.group.GroupConfig"},
    };

    public static void main(String[] ignored) throws Exception {
        for (ApiKeys key : ApiKeys.values()) {
            print("api", key.id + " " + key, key.oldestVersion() + "-" + key.latestVersion());
        }
        for (Errors error : Errors.values()) {
            print("error", error.code() + " " + error, error.message());
        }
        for (String[] each : CONFIGS) {
            for (Field field : Class.forName(each[1]).getDeclaredFields()) {
                boolean isStatic = Modifier.isStatic(field.getModifiers());
                if (isStatic && ConfigDef.class.isAssignableFrom(field.getType())) {
                    field.setAccessible(true);
                    print(each[0], (ConfigDef) field.get(null));
                }
            }
        }
    }

    private static void print(String kind, ConfigDef configs) {
        configs.configKeys().forEach((name, key) -> {
            String value = key.hasDefault() ? "" + key.defaultValue : "required";
            String valid = key.validator == null ? "" : " " + key.validator;
            print(kind + " config", name, key.type + " " + value + valid);
        });
    }

    private static void print(String kind, String name, String value) {
        System.out.println(kind + "\t" + name + "\t" + ("" + value).replaceAll("\\s+", " "));
    }
}
