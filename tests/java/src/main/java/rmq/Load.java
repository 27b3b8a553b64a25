package rmq;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * What a stock client pays for a message: {@code Load send|push NAMESRV TOPIC COUNT DEPTH BYTES} prints, for each round, the
 * microseconds of CPU of this whole process and the messages a second. Its partner is bench/client_load.py.
 */
public final class Load {
    private static final int ROUNDS = 4;

    private Load() {
    }

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]);
        int depth = Integer.parseInt(args[4]);
        if (args[0].equals("send")) {
            send(args[1], args[2], count, depth, new byte[Integer.parseInt(args[5])]);
        } else {
            push(args[1], args[2], count, depth);
        }
        System.exit(0);
    }

    private static void send(String namesrv, String topic, int count, int depth, byte[] body) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(topic + "-java");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        for (int round = 0; round < ROUNDS; round++) {
            Semaphore free = new Semaphore(depth);
            AtomicLong failed = new AtomicLong();
            Meter meter = new Meter();
            for (int i = 0; i < count; i++) {
                free.acquire();
                producer.send(new Message(topic, body), new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        free.release();
                    }

                    @Override
                    public void onException(Throwable e) {
                        failed.incrementAndGet();
                        free.release();
                    }
                });
            }
            free.acquire(depth);
            meter.print(count, failed.get());
        }
        producer.shutdown();
    }

    private static void push(String namesrv, String topic, int count, int rounds) throws Exception {
        for (int round = 0; round < rounds; round++) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic + "-java-" + System.nanoTime());
            consumer.setNamesrvAddr(namesrv);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic, "*");
            CountDownLatch left = new CountDownLatch(count);
            Meter[] meter = new Meter[1];
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                synchronized (meter) {
                    if (meter[0] == null) {
                        meter[0] = new Meter();
                    }
                }
                for (int i = 0; i < messages.size(); i++) {
                    left.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            left.await();
            meter[0].print(count, 0);
            consumer.shutdown();
        }
    }

    /** From its making on. */
    private static final class Meter {
        private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        private final long cpu = system.getProcessCpuTime();
        private final long began = System.nanoTime();

        void print(int count, long failed) {
            double used = (system.getProcessCpuTime() - cpu) / 1e3 / count;
            double rate = count * 1e9 / (System.nanoTime() - began);
            System.out.printf("{\"cpu_us\": %.2f, \"rate\": %.0f, \"failed\": %d}%n", used, rate, failed);
            System.out.flush();
        }
    }
}
