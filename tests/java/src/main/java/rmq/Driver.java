package rmq;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * One long-lived JVM that drives stock clients and tools for the tests, so that no test pays for a JVM of its own.
 *
 * Standard input: one command a line, `ID OPERATION key=value ...`, URL-encoded.  Each runs on a thread of its own.
 * Standard output: one JSON object a line.  A command ends with {"id", "result"} or {"id", "error", "code"}; in between and
 * afterwards consumers print {"event": "message", ...}.  End of input ends the process, clients unclosed.
 */
public final class Driver {
    private static final PrintStream OUT = System.out;
    private static final Map<String, Operation> OPERATIONS = new TreeMap<>();

    /** What a command does; what it returns is printed as its result. */
    interface Operation {
        Object run(Args args) throws Throwable;
    }

    private Driver() {
    }

    public static void main(String[] ignored) throws Exception {
        System.setOut(System.err); // what clients print must not mix with the protocol
        Producers producers = new Producers();
        producers.register(OPERATIONS);
        new Replies(producers).register(OPERATIONS);
        new PushConsumers().register(OPERATIONS);
        new Pullers().register(OPERATIONS);
        new Tools().register(OPERATIONS);
        OPERATIONS.put("ping", args -> "pong");
        OPERATIONS.put("property", args -> String.valueOf(System.setProperty(args.text("name"), args.text("value"))));
        print(Collections.singletonMap("event", "ready"));
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            threads.execute(() -> answer(words));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(String[] words) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", Long.parseLong(words[0]));
        try {
            Operation operation = OPERATIONS.get(words[1]);
            if (operation == null) {
                throw new IllegalArgumentException("no operation " + words[1] + " in " + OPERATIONS.keySet());
            }
            answer.put("result", operation.run(new Args(words)));
        } catch (Throwable e) {
            answer.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
            answer.put("code", responseCode(e));
        }
        print(answer);
    }

    /** The broker's response code in a client's exception; 0 when there is none. */
    static int responseCode(Throwable e) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            try {
                int code = (Integer) cause.getClass().getMethod("getResponseCode").invoke(cause);
                if (code > 0) {
                    return code;
                }
            } catch (ReflectiveOperationException none) {
                // this one carries no code
            }
        }
        return 0;
    }

    static void print(Map<String, ?> line) {
        String text = Json.write(line);
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }
}
