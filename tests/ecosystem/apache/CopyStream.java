import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Copies the topic `input` to `output`, and counts the records of each key into `counts`,
 * exactly once. Arguments: bootstrap servers, state directory, group protocol.
 */
public class CopyStream {
    public static void main(String[] words) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "copy");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[0]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, words[1]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        properties.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        properties.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1000);
        properties.put(StreamsConfig.consumerPrefix("max.poll.records"), 100);
        StreamsBuilder builder = new StreamsBuilder();
        // Slow, so that a kill comes in the middle.
        var input = builder.stream("input", Consumed.with(Serdes.String(), Serdes.String()))
            .peek((key, value) -> pause());
        input.to("output", Produced.with(Serdes.String(), Serdes.String()));
        input.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        Runtime.getRuntime().addShutdownHook(
            new Thread(() -> streams.close(Duration.ofSeconds(30))));
        streams.start();
        Thread.currentThread().join();
    }

    private static void pause() {
        try {
            Thread.sleep(2);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
