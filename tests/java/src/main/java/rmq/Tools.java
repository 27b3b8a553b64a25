package rmq;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.security.Permission;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin without a process each: the unmodified main program called again and again, its output and exit status caught. */
final class Tools {
    /** What a command thinks its System.exit did. */
    private static final class Exit extends SecurityException {
        private static final long serialVersionUID = 1L;
        final int status;

        Exit(int status) {
            super("exit " + status);
            this.status = status;
        }
    }

    private static final ThreadLocal<Boolean> RUNNING = ThreadLocal.withInitial(() -> false);

    void register(Map<String, Driver.Operation> operations) {
        operations.put("mqadmin", Waker.beside(this::run));
    }

    /** Arguments a.0, a.1, ... are the command line. */
    private synchronized Object run(Args args) throws Exception {
        List<String> line = new ArrayList<>();
        for (int i = 0; args.has("a." + i); i++) {
            line.add(args.text("a." + i));
        }
        forbidExit();
        forgetCommands();
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        long began = System.nanoTime();
        int status = 0;
        System.setOut(new PrintStream(printed, true, "UTF-8"));
        System.setErr(new PrintStream(complained, true, "UTF-8"));
        RUNNING.set(true);
        try {
            MQAdminStartup.main0(line.toArray(new String[0]), null);
        } catch (Exit exit) {
            status = exit.status;
        } finally {
            RUNNING.set(false);
            System.out.flush();
            System.setOut(out);
            System.setErr(err);
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("status", status);
        fields.put("out", printed.toString("UTF-8"));
        fields.put("err", complained.toString("UTF-8"));
        fields.put("ms", (System.nanoTime() - began) / 1_000_000);
        return fields;
    }

    /** Each call of main adds all commands to a static list again. */
    private static void forgetCommands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    @SuppressWarnings({"deprecation", "removal"})
    private static void forbidExit() {
        if (System.getSecurityManager() != null) {
            return;
        }
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkExit(int status) {
                if (RUNNING.get()) {
                    throw new Exit(status);
                }
            }

            @Override
            public void checkPermission(Permission permission) {
                // everything else is allowed
            }
        });
    }
}
