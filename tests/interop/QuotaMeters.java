import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/**
 * Kafka's Rate and TokenBucket, fed with lines of a time in ms and a value. After each line
 * it prints the rate, the length of its window in ms, and the tokens. Arguments: samples,
 * seconds of a sample, bound.
 */
public class QuotaMeters {
    public static void main(String[] arguments) {
        MetricConfig config = new MetricConfig()
            .samples(Integer.parseInt(arguments[0]))
            .timeWindow(Integer.parseInt(arguments[1]), TimeUnit.SECONDS)
            .quota(Quota.upperBound(Double.parseDouble(arguments[2])));
        Rate rate = new Rate();
        TokenBucket bucket = new TokenBucket();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLong()) {
            long now = lines.nextLong();
            double value = Double.parseDouble(lines.next());
            if (value != 0) {
                rate.record(config, value, now);
            }
            double measured = rate.measure(config, now);
            bucket.record(config, value, now);
            System.out.println(measured + " " + rate.windowSize(config, now) + " "
                + bucket.measure(config, now));
        }
    }
}
