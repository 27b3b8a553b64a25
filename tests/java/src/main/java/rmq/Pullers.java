package rmq;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask themselves: lite pull (assigned or subscribed) and the legacy pull consumer. */
@SuppressWarnings("deprecation")
final class Pullers {
    private final Map<String, DefaultLitePullConsumer> lites = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQPullConsumer> legacies = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Operation> operations) {
        operations.put("lite.start", this::liteStart);
        operations.put("lite.stop", Waker.beside(args -> {
            lite(args).shutdown();
            return lites.remove(args.text("consumer")) != null;
        }));
        operations.put("lite.queues", args -> Clients.describeQueues(lite(args).fetchMessageQueues(args.text("topic"))));
        operations.put("lite.assign", this::liteAssign);
        operations.put("lite.assignment", args -> Clients.describeQueues(lite(args).assignment()));
        operations.put("lite.poll", args -> Clients.describeMessages(lite(args).poll(args.number("timeout_ms"))));
        operations.put("lite.collect", this::liteCollect);
        operations.put("lite.seek", args -> {
            lite(args).seek(Clients.queue(args), args.number("offset"));
            return true;
        });
        operations.put("lite.commit", args -> {
            lite(args).commitSync();
            return true;
        });
        operations.put("lite.committed", args -> lite(args).committed(Clients.queue(args)));
        operations.put("lite.offset_for_timestamp",
            args -> lite(args).offsetForTimestamp(Clients.queue(args), args.number("timestamp")));
        operations.put("legacy.start", this::legacyStart);
        operations.put("legacy.stop", Waker.beside(args -> {
            legacy(args).shutdown();
            return legacies.remove(args.text("consumer")) != null;
        }));
        operations.put("legacy.queues", args -> Clients.describeQueues(legacy(args).fetchSubscribeMessageQueues(args.text("topic"))));
        operations.put("legacy.pull", this::legacyPull);
        operations.put("legacy.update_offset", args -> {
            legacy(args).updateConsumeOffset(Clients.queue(args), args.number("offset"));
            return true;
        });
        operations.put("legacy.persist", this::legacyPersist);
        operations.put("legacy.fetch_offset", args -> legacy(args).fetchConsumeOffset(Clients.queue(args), args.flag("from_store")));
        operations.put("legacy.balance", args -> Clients.describeQueues(legacy(args).fetchMessageQueuesInBalance(args.text("topic"))));
    }

    private DefaultLitePullConsumer lite(Args args) {
        return lites.get(args.text("consumer"));
    }

    private DefaultMQPullConsumer legacy(Args args) {
        return legacies.get(args.text("consumer"));
    }

    private Object liteStart(Args args) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(args.text("group"));
        Clients.configure(consumer, args);
        Clients.setMessageModel(consumer, args.text("model", "CLUSTERING"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(args.text("from", "CONSUME_FROM_FIRST_OFFSET")));
        consumer.setAutoCommit(!args.has("auto_commit") || args.flag("auto_commit"));
        consumer.setAutoCommitIntervalMillis(1000); // the shortest that it takes
        consumer.setPullBatchSize(args.number("pull_batch", 10));
        if (args.has("sql")) {
            consumer.subscribe(args.text("topic"), MessageSelector.bySql(args.text("sql")));
        } else if (args.has("topic")) {
            consumer.subscribe(args.text("topic"), args.text("expression", "*"));
        }
        consumer.start();
        lites.put(args.text("name"), consumer);
        return true;
    }

    /** Polls until it has so many. */
    private Object liteCollect(Args args) {
        List<Object> found = new ArrayList<>();
        while (found.size() < args.number("count")) {
            found.addAll(Clients.describeMessages(lite(args).poll(args.number("timeout_ms"))));
        }
        return found;
    }

    private Object liteAssign(Args args) throws Exception {
        Collection<MessageQueue> all = lite(args).fetchMessageQueues(args.text("topic"));
        List<MessageQueue> chosen = new ArrayList<>();
        for (MessageQueue queue : all) {
            if (!args.has("queue") || queue.getQueueId() == args.number("queue", 0)) {
                chosen.add(queue);
            }
        }
        lite(args).assign(chosen);
        return Clients.describeQueues(chosen);
    }

    private Object legacyStart(Args args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args.text("group"));
        Clients.configure(consumer, args);
        Clients.setMessageModel(consumer, args.text("model", "CLUSTERING"));
        if (args.has("topic")) {
            consumer.getRegisterTopics().add(args.text("topic"));
        }
        consumer.start();
        legacies.put(args.text("name"), consumer);
        return true;
    }

    private Object legacyPull(Args args) throws Exception {
        MessageQueue queue = Clients.queue(args);
        String expression = args.text("expression", "*");
        int most = args.number("max", 32);
        PullResult result = args.flag("block") ? legacy(args).pullBlockIfNotFound(queue, expression, args.number("offset"), most)
            : legacy(args).pull(queue, expression, args.number("offset"), most);
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("status", result.getPullStatus().name());
        fields.put("next_offset", result.getNextBeginOffset());
        fields.put("min_offset", result.getMinOffset());
        fields.put("max_offset", result.getMaxOffset());
        fields.put("messages", Clients.describeMessages(result.getMsgFoundList()));
        return fields;
    }

    /** What the legacy consumer keeps in memory goes to the broker. */
    private Object legacyPersist(Args args) throws Exception {
        DefaultMQPullConsumer consumer = legacy(args);
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(Clients.queue(args));
        return true;
    }
}
