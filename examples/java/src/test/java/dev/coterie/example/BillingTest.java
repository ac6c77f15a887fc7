package dev.coterie.example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(Coterie.class)
@Timeout(60)
class BillingTest {

    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);

    @Test
    void aCommitSurvivesACoordinatorThatMoved(Coterie.Server kafka) {
        kafka.createTopic("orders", Map.of());
        kafka.produce("orders", "first", "second");
        int fault = kafka.fault(Map.of(
                "kind", "reply",
                "api", "OffsetCommit",
                "error", "NOT_COORDINATOR",
                "group", "billing",
                "times", 2));
        try (Consumer<String, String> consumer = consumer(kafka)) {
            assertEquals(List.of("first", "second"), read(consumer, 2));
            consumer.commitSync(); // is refused twice, and repeated by the client
            assertEquals(2, committed(consumer));
        }
        assertEquals(2, kafka.hits(fault));
    }

    @Test
    void offsetsOfAGroupThatWasAwayForAWeekAreGone(Coterie.Server kafka) {
        kafka.createTopic("orders", Map.of("retention.ms", "-1")); // keep the records
        kafka.produce("orders", "first");
        try (Consumer<String, String> consumer = consumer(kafka)) {
            read(consumer, 1);
            consumer.commitSync();
        }
        kafka.advance(Duration.ofDays(8));
        try (Consumer<String, String> consumer = consumer(kafka)) {
            assertEquals(List.of("first"), read(consumer, 1)); // again: auto.offset.reset
        }
    }

    private static Consumer<String, String> consumer(Coterie.Server kafka) {
        Consumer<String, String> consumer = new KafkaConsumer<>(
                Map.of(
                        "bootstrap.servers", kafka.bootstrapServers(),
                        "group.id", "billing",
                        "auto.offset.reset", "earliest",
                        "enable.auto.commit", "false"),
                new StringDeserializer(),
                new StringDeserializer());
        consumer.subscribe(List.of(ORDERS.topic()));
        return consumer;
    }

    private static List<String> read(Consumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        while (values.size() < count) {
            consumer.poll(Duration.ofMillis(100)).forEach(each -> values.add(each.value()));
        }
        return values;
    }

    private static long committed(Consumer<String, String> consumer) {
        return consumer.committed(Set.of(ORDERS)).get(ORDERS).offset();
    }
}
