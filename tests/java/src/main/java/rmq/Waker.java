package rmq;

/**
 * A client that stops waits up to 3 s until a thread of its own looks up from an empty queue. Whenever an operation waits there,
 * those threads are woken: they see that they are to stop, or look into their queue again.
 */
final class Waker {
    private static final long WAKE_MS = 20;

    private Waker() {
    }

    /** The operation, with such a waker beside it. */
    static Driver.Operation beside(Driver.Operation operation) {
        return args -> {
            Thread waker = start(Thread.currentThread());
            try {
                return operation.run(args);
            } finally {
                waker.interrupt();
            }
        };
    }

    private static Thread start(Thread stopping) {
        Thread waker = new Thread(() -> {
            try {
                while (true) {
                    Thread.sleep(WAKE_MS);
                    if (waitsForThreads(stopping)) {
                        Thread.getAllStackTraces().keySet().stream()
                            .filter(thread -> thread.getName().contains("NettyEventExecutor"))
                            .filter(thread -> thread.getState() == Thread.State.TIMED_WAITING).forEach(Thread::interrupt);
                    }
                }
            } catch (InterruptedException end) {
                // the operation has ended
            }
        }, "waker");
        waker.setDaemon(true);
        waker.start();
        return waker;
    }

    private static boolean waitsForThreads(Thread stopping) {
        for (StackTraceElement frame : stopping.getStackTrace()) {
            if (frame.getMethodName().equals("shutdown") && frame.getClassName().endsWith(".ServiceThread")) {
                return true;
            }
        }
        return false;
    }
}
