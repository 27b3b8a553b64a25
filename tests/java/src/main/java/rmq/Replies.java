package rmq;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Request and reply: producers that wait for an answer, and consumers that give one, each by its name. */
final class Replies {
    private static final int ASYNC_WAIT_S = 180;

    private final Producers producers;
    private final Map<String, Replier> repliers = new ConcurrentHashMap<>();

    Replies(Producers producers) {
        this.producers = producers;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("request", this::request);
        operations.put("replier.start", args -> {
            Replier replier = new Replier(args);
            repliers.put(args.text("name"), replier);
            return true;
        });
        operations.put("replier.release", args -> {
            repliers.get(args.text("replier")).gate.release(args.number("calls", 1));
            return true;
        });
        operations.put("replier.asked", args -> repliers.get(args.text("replier")).asked);
        operations.put("replier.outcomes", args -> new ArrayList<>(repliers.get(args.text("replier")).outcomes));
        operations.put("replier.stop", Waker.beside(args -> repliers.remove(args.text("replier")).stop()));
    }

    /** Sends one request and waits for the reply to it, in one of both forms. */
    private Object request(Args args) throws Exception {
        Message message = new Message(args.text("topic"), args.text("body").getBytes(StandardCharsets.UTF_8));
        DefaultMQProducer producer = producers.of(args);
        if (!args.text("form", "sync").equals("async")) {
            return describe(producer.request(message, args.number("wait_ms")));
        }
        CompletableFuture<Object> outcome = new CompletableFuture<>();
        producer.request(message, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                outcome.complete(describe(reply));
            }

            @Override
            public void onException(Throwable e) {
                outcome.completeExceptionally(e);
            }
        }, args.number("wait_ms"));
        try {
            return outcome.get(ASYNC_WAIT_S, TimeUnit.SECONDS);
        } catch (java.util.concurrent.ExecutionException e) {
            throw (Exception) e.getCause();
        }
    }

    private static Map<String, Object> describe(Message reply) {
        return reply instanceof MessageExt ? Clients.describe((MessageExt) reply)
            : Collections.singletonMap("body", new String(reply.getBody(), StandardCharsets.UTF_8));
    }

    /** Answers "re: " and the body, and remembers how each answer went; `gated`: not before it is released. */
    private static final class Replier {
        final Semaphore gate = new Semaphore(0);
        final List<Object> outcomes = Collections.synchronizedList(new ArrayList<>());
        volatile int asked;
        private final DefaultMQProducer producer;
        private final DefaultMQPushConsumer consumer;

        Replier(Args args) throws Exception {
            producer = new DefaultMQProducer(args.text("group") + "-replies");
            Clients.configure(producer, args);
            producer.start();
            consumer = new DefaultMQPushConsumer(args.text("group"));
            Clients.configure(consumer, args);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(args.text("topic"), "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                asked += messages.size();
                if (args.flag("gated")) {
                    gate.acquireUninterruptibly();
                }
                if (!args.flag("silent")) {
                    messages.forEach(message -> outcomes.add(reply(message, args.number("size", 0))));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
        }

        private Object reply(MessageExt asked, int size) {
            StringBuilder text = new StringBuilder("re: " + new String(asked.getBody(), StandardCharsets.UTF_8));
            while (text.length() < size) {
                text.append('.');
            }
            try {
                Message reply = MessageUtil.createReplyMessage(asked, text.toString().getBytes(StandardCharsets.UTF_8));
                return Producers.describe(producer.send(reply, 30_000));
            } catch (Exception e) {
                Map<String, Object> failed = new LinkedHashMap<>();
                failed.put("error", String.valueOf(e.getCause() == null ? e : e.getCause()));
                failed.put("code", Driver.responseCode(e));
                return failed;
            }
        }

        boolean stop() {
            consumer.shutdown();
            producer.shutdown();
            return true;
        }
    }
}
