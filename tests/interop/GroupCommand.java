import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.Scanner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Apache's kafka-consumer-groups, many times in one virtual machine: its start is most of
 * what a run costs. A line of words with tabs between is one run, and an empty line is a run
 * without words; the answer is a line with the exit code and the bytes of stdout and stderr,
 * and then these bytes. Lines that are sent before their answers are read run in parallel;
 * the answers are in the order of the lines.
 */
public class GroupCommand {
    private static final int AT_ONCE = 4;

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
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        BlockingQueue<Future<Optional<Run>>> runs = new LinkedBlockingQueue<>();
        Thread writer = new Thread(() -> write(runs, answers));
        writer.start();
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            String[] words = line.isEmpty() ? new String[0] : line.split("\t", -1);
            runs.add(pool.submit(() -> Optional.of(run(words))));
        }
        runs.add(CompletableFuture.completedFuture(Optional.empty()));
        pool.shutdown();
        writer.join();
    }

    private static void write(BlockingQueue<Future<Optional<Run>>> runs, PrintStream answers) {
        try {
            for (Optional<Run> run = runs.take().get(); run.isPresent(); run = runs.take().get()) {
                byte[] out = run.get().out.toByteArray();
                byte[] err = run.get().err.toByteArray();
                String head = run.get().exitCode + " " + out.length + " " + err.length + "\n";
                answers.write(head.getBytes(StandardCharsets.UTF_8));
                answers.write(out);
                answers.write(err);
                answers.flush();
            }
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
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
