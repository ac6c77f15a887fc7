import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A worker that copies records of a topic to another one in transactions. It ends at the end
 * of its stdin; copiers.py has the arguments and the lines of its stdout.
 */
public class Copier {
    private static final Duration IDLE = Duration.ofMillis(200);
    private static final long RETRIED_MS = 90_000;
    private static volatile boolean isStopped = false;

    private final String target;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;

    private Copier(
            KafkaProducer<byte[], byte[]> producer,
            KafkaConsumer<byte[], byte[]> consumer,
            String target) {
        this.producer = producer;
        this.consumer = consumer;
        this.target = target;
    }

    public static void main(String[] arguments) {
        Thread stdin = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException error) {
                System.err.println(error);
            }
            isStopped = true;
        });
        stdin.setDaemon(true);
        stdin.start();
        while (!isStopped) {
            try {
                work(arguments);
            } catch (KafkaException error) {
                System.out.println("failed " + error.toString().replace('\n', ' '));
            }
        }
    }

    private static void work(String[] arguments) {
        Map<String, Object> producing = new HashMap<>();
        producing.put("bootstrap.servers", arguments[0]);
        producing.put("transactional.id", arguments[1]);
        producing.put("transaction.timeout.ms", 20_000);
        producing.put("key.serializer", ByteArraySerializer.class);
        producing.put("value.serializer", ByteArraySerializer.class);
        Map<String, Object> consuming = new HashMap<>();
        consuming.put("bootstrap.servers", arguments[0]);
        consuming.put("group.id", arguments[2]);
        consuming.put("group.protocol", arguments[3]);
        if (arguments[3].equals("classic")) {
            consuming.put("session.timeout.ms", 6_000);
        }
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("enable.auto.commit", false);
        consuming.put("isolation.level", "read_committed");
        consuming.put("max.poll.records", 100);
        consuming.put("key.deserializer", ByteArrayDeserializer.class);
        consuming.put("value.deserializer", ByteArrayDeserializer.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing);
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consuming)) {
            retry(producer::initTransactions);
            consumer.subscribe(List.of(arguments[4]));
            Copier copier = new Copier(producer, consumer, arguments[5]);
            while (!isStopped) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(IDLE);
                if (!records.isEmpty()) {
                    copier.copy(records);
                }
            }
        }
    }

    /** Copies records in one transaction; after an error they are read again. */
    private void copy(ConsumerRecords<byte[], byte[]> records) {
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> each : records) {
                producer.send(new ProducerRecord<>(target, each.value()));
                offsets.put(
                        new TopicPartition(each.topic(), each.partition()),
                        new OffsetAndMetadata(each.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            retry(producer::commitTransaction);
        } catch (ProducerFencedException
                | OutOfOrderSequenceException
                | AuthorizationException error) {
            throw error;
        } catch (KafkaException error) {
            System.err.println("aborted after " + error);
            System.out.println("aborted");
            retry(producer::abortTransaction);
            rewind();
        }
    }

    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata>[] committed = new Map[1];
        retry(() -> committed[0] = consumer.committed(consumer.assignment()));
        for (TopicPartition each : consumer.assignment()) {
            OffsetAndMetadata offset = committed[0].get(each);
            consumer.seek(each, offset == null ? 0 : offset.offset());
        }
    }

    /** Repeats a call after a time-out, as the documentation of KafkaProducer requires. */
    private static void retry(Runnable call) {
        long deadline = System.currentTimeMillis() + RETRIED_MS;
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                if (System.currentTimeMillis() > deadline) {
                    throw error;
                }
            }
        }
    }
}
