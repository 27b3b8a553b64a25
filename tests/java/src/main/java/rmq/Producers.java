package rmq;

import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** Producers by name, every form of sending, and a background sender that remembers what was acknowledged. */
final class Producers {
    private static final int ASYNC_WAIT_S = 180;

    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, List<MessageExt>> checked = new ConcurrentHashMap<>();
    private final Map<String, Flood> floods = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Operation> operations) {
        operations.put("producer.start", this::start);
        operations.put("producer.stop", Waker.beside(this::stop));
        operations.put("producer.queues", args -> Clients.describeQueues(of(args).fetchPublishMessageQueues(args.text("topic"))));
        operations.put("producer.create_topic", this::createTopic);
        operations.put("producer.checked", args -> Clients.describeMessages(new ArrayList<>(checked.get(args.text("producer")))));
        operations.put("send", this::send);
        operations.put("flood.start", this::floodStart);
        operations.put("flood.count", args -> floods.get(args.text("flood")).acknowledged.size());
        operations.put("flood.stop", this::floodStop);
        operations.put("max_offset", args -> of(args).maxOffset(Clients.queue(args)));
        operations.put("min_offset", args -> of(args).minOffset(Clients.queue(args)));
        operations.put("search_offset", args -> of(args).searchOffset(Clients.queue(args), args.number("timestamp")));
        operations.put("earliest_store_time", args -> of(args).earliestMsgStoreTime(Clients.queue(args)));
        operations.put("view_message", args -> Clients.describe(of(args).viewMessage(args.text("topic"), args.text("id"))));
        operations.put("query_message", this::query);
        operations.put("recall", this::recall);
    }

    DefaultMQProducer of(Args args) {
        DefaultMQProducer producer = producers.get(args.text("producer"));
        if (producer == null) {
            throw new IllegalArgumentException("no producer " + args.text("producer"));
        }
        return producer;
    }

    private Object start(Args args) throws Exception {
        DefaultMQProducer producer = args.flag("transactions") ? transactional(args)
            : Clients.made(DefaultMQProducer.class, args);
        Clients.configure(producer, args);
        producer.setSendMsgTimeout(args.number("timeout_ms", Clients.SEND_MS_MAX));
        producer.setRetryTimesWhenSendFailed(args.number("retries", 2));
        producer.setRetryTimesWhenSendAsyncFailed(args.number("retries", 2));
        producer.setRetryAnotherBrokerWhenNotStoreOK(true);
        producer.setCompressMsgBodyOverHowmuch(args.number("compress_over", 4096));
        producer.setMaxMessageSize(args.number("max_message_size", 4 * 1024 * 1024));
        producer.setDefaultTopicQueueNums(args.number("queues", 4));
        producer.setSendLatencyFaultEnable(args.flag("latency_fault"));
        producer.start();
        producers.put(args.text("name"), producer);
        return true;
    }

    /**
     * Its messages are committed, rolled back or left open as the argument `outcome` of each says.  Asked about one it says what
     * the message's own property `checked` says, without one: commit.
     */
    private DefaultMQProducer transactional(Args args) {
        List<MessageExt> asked = Collections.synchronizedList(new ArrayList<>());
        checked.put(args.text("name"), asked);
        TransactionMQProducer producer = new TransactionMQProducer(args.text("group"));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.valueOf(String.valueOf(argument));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.add(message);
                String said = message.getUserProperty("checked");
                return said == null ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.valueOf(said);
            }
        });
        return producer;
    }

    private Object stop(Args args) {
        of(args).shutdown();
        return producers.remove(args.text("producer")) != null;
    }

    private Object createTopic(Args args) throws Exception {
        String key = args.text("key", "TBW102");
        int queues = args.number("queues", 4);
        try { // 4.x has (key, topic, queues), 5.x adds a map of attributes
            of(args).getClass().getMethod("createTopic", String.class, String.class, int.class)
                .invoke(of(args), key, args.text("topic"), queues);
        } catch (NoSuchMethodException later) {
            of(args).getClass().getMethod("createTopic", String.class, String.class, int.class, Map.class)
                .invoke(of(args), key, args.text("topic"), queues, Collections.emptyMap());
        }
        return true;
    }

    private Object query(Args args) throws Exception {
        List<MessageExt> found = of(args).queryMessage(args.text("topic"), args.text("key"), args.number("max", 32),
            args.has("begin") ? args.number("begin") : 0, args.has("end") ? args.number("end") : Long.MAX_VALUE).getMessageList();
        return Clients.describeMessages(found);
    }

    /** Message number i of a command: body `PREFIX` + i (or just the body when one is meant), or `size` repeated letters. */
    private static Message message(Args args, int i) {
        byte[] body;
        if (args.has("size")) {
            body = new byte[args.number("size", 0)];
            for (int at = 0; at < body.length; at++) {
                body[at] = (byte) ('a' + (at + i) % 26);
            }
        } else {
            body = (args.text("body") + (args.has("count") ? i : "")).getBytes(StandardCharsets.UTF_8);
        }
        Message message = new Message(args.text("topic"), body);
        if (args.has("tags")) {
            String[] tags = args.text("tags").split(",");
            message.setTags(tags[i % tags.length]);
        }
        if (args.has("keys")) {
            message.setKeys(args.text("keys") + (args.has("count") ? i : ""));
        }
        message.setFlag(args.number("flag", 0));
        if (args.has("delay")) {
            message.setDelayTimeLevel(args.number("delay", 0));
        }
        time(message, args);
        if (args.has("wait")) {
            message.setWaitStoreMsgOK(args.flag("wait"));
        }
        args.startingWith("p").forEach(message::putUserProperty);
        // Names of the system, which putUserProperty refuses: "x.TIMER_DELAY_MS".
        args.startingWith("x").forEach((name, value) -> MessageAccessor.putProperty(message, name, value));
        return message;
    }

    /** The three ways to name a time; 4.x has none of them. */
    private static void time(Message message, Args args) {
        String[][] ways = {{"delay_sec", "setDelayTimeSec"}, {"delay_ms", "setDelayTimeMs"}, {"deliver_ms", "setDeliverTimeMs"}};
        for (String[] way : ways) {
            if (args.has(way[0])) {
                try {
                    Message.class.getMethod(way[1], long.class).invoke(message, args.number(way[0]));
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }

    /** Calls a message back by the handle of its send; 4.x cannot. */
    private Object recall(Args args) throws Exception {
        try {
            return DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
                .invoke(of(args), args.text("topic"), args.text("handle"));
        } catch (InvocationTargetException e) {
            throw (Exception) e.getCause();
        }
    }

    private Object send(Args args) throws Exception {
        DefaultMQProducer producer = of(args);
        int count = args.number("count", 1);
        String form = args.text("form", "sync");
        List<Object> results = new ArrayList<>();
        if (form.equals("batch")) {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                batch.add(message(args, i));
            }
            results.add(describe(args.has("broker") ? producer.send(batch, Clients.queue(args)) : producer.send(batch)));
        } else if (form.equals("async")) {
            return sendAsync(producer, args, count);
        } else {
            for (int i = 0; i < count; i++) {
                results.add(sendOne(producer, form, args, i));
            }
        }
        return results;
    }

    private static Object sendOne(DefaultMQProducer producer, String form, Args args, int i) throws Exception {
        Message message = message(args, i);
        switch (form) {
            case "sync":
                return describe(producer.send(message));
            case "oneway":
                producer.sendOneway(message);
                return null;
            case "transaction":
                return describe(((TransactionMQProducer) producer).sendMessageInTransaction(message, args.text("outcome")));
            case "queue":
                return describe(producer.send(message, Clients.queue(args)));
            case "selector":
                return describe(producer.send(message, new SelectMessageQueueByHash(), i % args.number("spread", 8)));
            default:
                throw new IllegalArgumentException("no form " + form);
        }
    }

    private static Object sendAsync(DefaultMQProducer producer, Args args, int count) throws Exception {
        List<Object> results = new ArrayList<>(Collections.nCopies(count, null));
        CountDownLatch left = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            int at = i;
            producer.send(message(args, i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results.set(at, describe(result));
                    left.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    results.set(at, Collections.singletonMap("error", e.toString()));
                    left.countDown();
                }
            });
        }
        if (!left.await(ASYNC_WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(left.getCount() + " callbacks are missing");
        }
        return results;
    }

    static Map<String, Object> describe(SendResult result) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("status", result.getSendStatus().name());
        fields.put("msg_id", result.getMsgId());
        fields.put("offset_msg_id", result.getOffsetMsgId());
        fields.put("broker", result.getMessageQueue().getBrokerName());
        fields.put("queue", result.getMessageQueue().getQueueId());
        fields.put("offset", result.getQueueOffset());
        fields.put("transaction_id", result.getTransactionId());
        fields.put("region", result.getRegionId());
        fields.put("trace_on", result.isTraceOn());
        try { // since 5.3.2
            fields.put("recall_handle", SendResult.class.getMethod("getRecallHandle").invoke(result));
        } catch (ReflectiveOperationException old) {
            fields.put("recall_handle", null);
        }
        return fields;
    }

    private Object floodStart(Args args) {
        Flood flood = new Flood(of(args), args);
        floods.put(args.text("flood"), flood);
        flood.start();
        return true;
    }

    private Object floodStop(Args args) throws Exception {
        Flood flood = floods.remove(args.text("flood"));
        flood.stopping = true;
        flood.join();
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("acknowledged", new ArrayList<>(flood.acknowledged));
        fields.put("by_broker", flood.byBroker);
        fields.put("failed", flood.failed);
        fields.put("tried", flood.tried);
        fields.put("took_ms", new ArrayList<>(flood.tookMs));
        return fields;
    }

    /** Sends one message after the other until it is stopped; bodies `PREFIX` + number.  What failed is not sent again. */
    private static final class Flood extends Thread {
        final List<String> acknowledged = Collections.synchronizedList(new ArrayList<>());
        final List<String> failed = Collections.synchronizedList(new ArrayList<>());
        /** Of each send, whatever became of it. */
        final List<Double> tookMs = Collections.synchronizedList(new ArrayList<>());
        final Map<String, Integer> byBroker = new ConcurrentHashMap<>();
        volatile boolean stopping;
        volatile int tried;
        private final DefaultMQProducer producer;
        private final Args args;

        Flood(DefaultMQProducer producer, Args args) {
            super("flood-" + args.text("flood"));
            this.producer = producer;
            this.args = args;
            setDaemon(true);
        }

        @Override
        public void run() {
            int pause = args.number("pause_ms", 5);
            while (!stopping) {
                String body = args.text("body") + tried++;
                long began = System.nanoTime();
                try {
                    SendResult result = producer.send(new Message(args.text("topic"), body.getBytes(StandardCharsets.UTF_8)));
                    tookMs.add((System.nanoTime() - began) / 1e6);
                    acknowledged.add(body);
                    byBroker.merge(result.getMessageQueue().getBrokerName(), 1, Integer::sum);
                    Thread.sleep(pause);
                } catch (InterruptedException e) {
                    return;
                } catch (Exception e) {
                    tookMs.add((System.nanoTime() - began) / 1e6);
                    failed.add(body + ": " + e);
                }
            }
        }
    }
}
