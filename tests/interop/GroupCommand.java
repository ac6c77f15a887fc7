import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Apache's kafka-consumer-groups, many times in one virtual machine: its start is most of
 * what a run costs. A line of words with tabs between is one run; the answer is a line with
 * the exit code and the bytes of stdout and stderr, and then these bytes.
 */
public class GroupCommand {
    private static final class Exited extends RuntimeException {
        final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    public static void main(String[] ignored) throws IOException {
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        PrintStream answers = System.out;
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int code = run(lines.nextLine().split("\t"));
            System.out.flush();
            System.err.flush();
            String head = code + " " + out.size() + " " + err.size() + "\n";
            answers.write(head.getBytes(StandardCharsets.UTF_8));
            out.writeTo(answers);
            err.writeTo(answers);
            answers.flush();
        }
    }

    private static int run(String[] words) {
        try {
            ConsumerGroupCommand.main(words);
            return 0;
        } catch (Exited exited) {
            return exited.code;
        }
    }
}
