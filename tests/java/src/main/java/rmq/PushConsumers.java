package rmq;

import java.lang.reflect.Field;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumers by name; every message they are given becomes an event. */
final class PushConsumers {
    private final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();
    private final Map<String, Semaphore> gates = new ConcurrentHashMap<>();
    private final AtomicLong sequence = new AtomicLong();

    void register(Map<String, Driver.Operation> operations) {
        operations.put("push.subscribe", args -> {
            of(args).subscribe(args.text("topic"), selector(args));
            return true;
        });
        operations.put("push.start", this::start);
        operations.put("push.age", this::age);
        operations.put("push.stop", Waker.beside(this::stop));
        operations.put("push.queues", args -> Clients.describeQueues(
            of(args).getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()));
        operations.put("push.pop_queues", args -> {
            Object balance = of(args).getDefaultMQPushConsumerImpl().getRebalanceImpl();
            return Clients.describeQueues(((Map<MessageQueue, ?>) get(balance, "getPopProcessQueueTable")).keySet());
        });
        operations.put("push.cached", args -> of(args).getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
            .values().stream().mapToLong(queue -> queue.getMsgCount().get()).sum());
        operations.put("push.beat", this::beat);
        operations.put("push.persist", args -> {
            of(args).getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return true;
        });
        operations.put("push.release", args -> {
            gates.get(args.text("consumer")).release(args.number("calls", 1));
            return true;
        });
        operations.put("push.suspend", args -> {
            of(args).suspend();
            return true;
        });
        operations.put("push.resume", args -> {
            of(args).resume();
            return true;
        });
        operations.put("rebalance_interval", Clients::setRebalanceInterval);
    }

    private DefaultMQPushConsumer of(Args args) {
        DefaultMQPushConsumer consumer = consumers.get(args.text("consumer"));
        if (consumer == null) {
            throw new IllegalArgumentException("no push consumer " + args.text("consumer"));
        }
        return consumer;
    }

    private Object start(Args args) throws Exception {
        DefaultMQPushConsumer consumer = Clients.made(DefaultMQPushConsumer.class, args);
        Clients.configure(consumer, args);
        Clients.setMessageModel(consumer, args.text("model", "CLUSTERING"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(args.text("from", "CONSUME_FROM_FIRST_OFFSET")));
        if (args.has("from_ms")) { // of CONSUME_FROM_TIMESTAMP; the client keeps whole seconds
            consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(args.number("from_ms")));
        }
        consumer.setConsumeMessageBatchMaxSize(args.number("batch", 1));
        consumer.setPullBatchSize(args.number("pull_batch", 32));
        consumer.setConsumeThreadMin(args.number("threads", 8));
        consumer.setConsumeThreadMax(args.number("threads", 8));
        consumer.setMaxReconsumeTimes(args.number("max_reconsume", -1));
        consumer.setSuspendCurrentQueueTimeMillis(args.number("suspend_ms", 100));
        for (String topic : args.text("topic").split(",")) {
            consumer.subscribe(topic, selector(args));
        }
        popBy(consumer, args);
        if (args.flag("heartbeat_v2")) { // of 5.x, too
            set(consumer, "setUseHeartbeatV2", boolean.class, true);
        }
        String name = args.text("name");
        int failures = args.number("failures", 0);
        int delayLevel = args.number("delay_level", 0);
        if (args.flag("gated")) {
            gates.put(name, new Semaphore(0));
        }
        if (args.has("script")) {
            consumer.registerMessageListener(scripted(name, args));
        } else if (args.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                describe(name, messages, args);
                return messages.get(0).getReconsumeTimes() < failures ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                    : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                describe(name, messages, args);
                if (args.flag("sync_commit")) {
                    commit(consumer, messages.get(messages.size() - 1), context.getMessageQueue());
                }
                context.setDelayLevelWhenNextConsume(delayLevel);
                return messages.get(0).getReconsumeTimes() < failures ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumers.put(name, consumer);
        consumer.start();
        // Retries and dead letters, too: by default it gives up after 3 s, and sends again what the broker has stored by then.
        consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getDefaultMQProducer()
            .setSendMsgTimeout(Clients.SEND_MS_MAX);
        return consumer.buildMQClientId();
    }

    /** What only clients of 5.x have: the broker shares queues out, and messages are popped where it says so. */
    private static void popBy(DefaultMQPushConsumer consumer, Args args) throws ReflectiveOperationException {
        if (args.flag("broker_rebalance")) {
            set(consumer, "setClientRebalance", boolean.class, false);
            set(consumer, "setPopInvisibleTime", long.class, (long) args.number("invisible_ms", 60_000));
            set(consumer, "setPopThresholdForQueue", int.class, args.number("pop_threshold", 96));
            set(consumer, "setPopBatchNums", int.class, args.number("pop_batch", 32));
        }
    }

    private static void set(Object object, String name, Class<?> type, Object value) throws ReflectiveOperationException {
        object.getClass().getMethod(name, type).invoke(object, value);
    }

    private static Object get(Object object, String name) throws ReflectiveOperationException {
        return object.getClass().getMethod(name).invoke(object);
    }

    private static MessageSelector selector(Args args) {
        return args.has("sql") ? MessageSelector.bySql(args.text("sql")) : MessageSelector.byTag(args.text("expression", "*"));
    }

    /** A heartbeat to all brokers, now.  True if the next one may leave out what the consumer subscribes to (`useHeartbeatV2`). */
    private Object beat(Args args) throws ReflectiveOperationException {
        MQClientInstance client = of(args).getDefaultMQPushConsumerImpl().getmQClientFactory();
        get(client, "sendHeartbeatToAllBrokerWithLock"); // in 4.x it returns nothing
        Field known = MQClientInstance.class.getDeclaredField("brokerAddrHeartbeatFingerprintTable");
        known.setAccessible(true);
        return !((Map<?, ?>) known.get(client)).isEmpty();
    }

    /** As if it had been started so long ago: tools believe nothing that a young consumer says of its subscription. */
    private Object age(Args args) throws ReflectiveOperationException {
        Field started = DefaultMQPushConsumerImpl.class.getDeclaredField("consumerStartTimestamp");
        started.setAccessible(true);
        started.setLong(of(args).getDefaultMQPushConsumerImpl(), System.currentTimeMillis() - args.number("ms"));
        return true;
    }

    /** What a client does not do by itself: a commit whose answer it waits for.  Right with one thread only. */
    private static void commit(DefaultMQPushConsumer consumer, MessageExt last, MessageQueue queue) {
        try {
            consumer.getDefaultMQPushConsumerImpl().getOffsetStore()
                .updateConsumeOffsetToBroker(queue, last.getQueueOffset() + 1, false);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** Call n of the listener answers the n-th word of `script`, the last word from then on; THROW and NULL are words, too. */
    private MessageListenerOrderly scripted(String name, Args args) {
        String[] words = args.text("script").split(",");
        AtomicInteger calls = new AtomicInteger();
        return (messages, context) -> {
            describe(name, messages, args);
            context.setAutoCommit(args.flag("auto_commit"));
            String word = words[Math.min(calls.getAndIncrement(), words.length - 1)];
            if (word.equals("THROW")) {
                throw new IllegalStateException("as the script says");
            }
            return word.equals("NULL") ? null : ConsumeOrderlyStatus.valueOf(word);
        };
    }

    private Object stop(Args args) {
        of(args).shutdown();
        return consumers.remove(args.text("consumer")) != null;
    }

    private void describe(String consumer, List<MessageExt> messages, Args args) {
        for (MessageExt message : messages) {
            Map<String, Object> event = new LinkedHashMap<>();
            event.put("event", "message");
            event.put("consumer", consumer);
            event.put("number", sequence.incrementAndGet());
            event.put("began_ns", System.nanoTime());
            event.put("thread", Thread.currentThread().getName());
            event.putAll(Clients.describe(message));
            Driver.print(event);
        }
        try {
            boolean isGated = !args.has("gated_queue") || messages.get(0).getQueueId() == args.number("gated_queue", 0);
            if (gates.containsKey(consumer) && isGated) {
                gates.get(consumer).acquire();
            }
            Thread.sleep(args.number("work_ms", 0));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
