import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Apache's kafka-consumer-groups, many times in one virtual machine: its start is most of
 * what a run costs. A line of words with tabs between is one run; the answer is a line with
 * the exit code and the bytes of stdout and stderr, and then these bytes.
 */
public class GroupCommand {
    /** The output of one run: that of its thread and of the threads that it starts. */
    private static final class Run {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        /** The code of the first exit: the command catches the exception that ends it. */
        Integer exitCode;
    }

    private static final class Exited extends RuntimeException {
    }

    private static final InheritableThreadLocal<Run> RUN = new InheritableThreadLocal<>();

    /** Writes to the output of the current run, until it exits. */
    private static final class Capture extends OutputStream {
        private final boolean isError;

        Capture(boolean isError) {
            this.isError = isError;
        }

        @Override
        public void write(int each) {
            write(new byte[] {(byte) each}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int start, int count) {
            Run run = RUN.get();
            if (run != null && run.exitCode == null) {
                (isError ? run.err : run.out).write(bytes, start, count);
            }
        }
    }

    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            if (RUN.get().exitCode == null) {
                RUN.get().exitCode = code;
            }
            throw new Exited();
        });
        PrintStream answers = System.out;
        System.setOut(new PrintStream(new Capture(false), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Capture(true), true, StandardCharsets.UTF_8));
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            Run run = run(lines.nextLine().split("\t", -1));
            byte[] out = run.out.toByteArray();
            byte[] err = run.err.toByteArray();
            String head = run.exitCode + " " + out.length + " " + err.length + "\n";
            answers.write(head.getBytes(StandardCharsets.UTF_8));
            answers.write(out);
            answers.write(err);
            answers.flush();
        }
    }

    private static Run run(String[] words) {
        Run run = new Run();
        RUN.set(run);
        try {
            ConsumerGroupCommand.main(words);
            end(run, 0);
        } catch (Exited exited) {
            // The exit procedure keeps the code.
        } catch (Throwable uncaught) {
            System.err.print("Exception in thread \"main\" ");
            uncaught.printStackTrace();
            end(run, 1);
        }
        return run;
    }

    private static void end(Run run, int exitCode) {
        if (run.exitCode == null) {
            run.exitCode = exitCode;
        }
    }
}
