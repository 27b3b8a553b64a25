package rmq;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.consumer.RebalanceService;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What all clients share: how they are set up, how messages and queues are described to Python. */
final class Clients {
    /** Longer bodies are described by length and CRC only. */
    private static final int BODY_BYTES_MAX = 200;
    /** A busy machine is no lost server: by default a client gives up after 3 s, and says that there is no route. */
    private static final int SERVER_MS_MAX = 30_000;
    static final int SEND_MS_MAX = 60_000;

    private Clients() {
    }

    /** Instance name = our name for the client: two of a group in one JVM must differ.  Intervals are short for tests. */
    static void configure(ClientConfig client, Args args) {
        client.setNamesrvAddr(args.text("namesrv"));
        client.setClientIP("127.0.0.1");
        client.setInstanceName(args.text("name"));
        client.setPollNameServerInterval(args.number("poll_namesrv_ms", 1000));
        client.setHeartbeatBrokerInterval(args.number("heartbeat_ms", 1000));
        client.setPersistConsumerOffsetInterval(args.number("persist_ms", 1000));
        client.setVipChannelEnabled(args.flag("vip"));
        client.setMqClientApiTimeout(SERVER_MS_MAX);
        if (args.flag("trace")) {
            trace(client);
        }
    }

    /** A client of a group.  Message trace is set in clients of 5.x by `configure`, in those of 4.x when they are made. */
    static <T extends ClientConfig> T made(Class<T> kind, Args args) throws ReflectiveOperationException {
        if (args.flag("trace") && !hasTraceSetter(kind)) {
            return kind.getConstructor(String.class, boolean.class).newInstance(args.text("group"), true);
        }
        return kind.getConstructor(String.class).newInstance(args.text("group"));
    }

    private static boolean hasTraceSetter(Class<?> kind) {
        return Arrays.stream(kind.getMethods()).anyMatch(method -> method.getName().equals("setEnableTrace"));
    }

    private static void trace(ClientConfig client) {
        try {
            if (hasTraceSetter(client.getClass())) {
                client.getClass().getMethod("setEnableTrace", boolean.class).invoke(client, true);
            }
        } catch (ReflectiveOperationException problem) {
            throw new IllegalArgumentException("no message trace in this version", problem);
        }
    }

    /** The enum moved to another package in 5.x, so the setter's signature differs. */
    static void setMessageModel(Object consumer, String model) throws ReflectiveOperationException {
        for (Method method : consumer.getClass().getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class<?> type = method.getParameterTypes()[0];
                for (Object constant : type.getEnumConstants()) {
                    if (constant.toString().equals(model)) {
                        method.invoke(consumer, constant);
                        return;
                    }
                }
            }
        }
        throw new IllegalArgumentException("no message model " + model);
    }

    /** How long a client waits between two rebalances that nobody asked for; for all clients of this JVM. */
    static Object setRebalanceInterval(Args args) throws ReflectiveOperationException {
        Field field = RebalanceService.class.getDeclaredField("waitInterval");
        field.setAccessible(true);
        Object before = field.get(null);
        field.setLong(null, args.number("ms"));
        return before;
    }

    static MessageQueue queue(Args args) {
        return new MessageQueue(args.text("topic"), args.text("broker"), args.number("queue", 0));
    }

    static Map<String, Object> describe(MessageQueue queue) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", queue.getTopic());
        fields.put("broker", queue.getBrokerName());
        fields.put("queue", queue.getQueueId());
        return fields;
    }

    static List<Object> describeQueues(Iterable<MessageQueue> queues) {
        List<MessageQueue> sorted = new ArrayList<>();
        queues.forEach(sorted::add);
        sorted.sort(null);
        List<Object> fields = new ArrayList<>();
        sorted.forEach(queue -> fields.add(describe(queue)));
        return fields;
    }

    static List<Object> describeMessages(Iterable<MessageExt> messages) {
        List<Object> fields = new ArrayList<>();
        if (messages != null) {
            messages.forEach(message -> fields.add(describe(message)));
        }
        return fields;
    }

    static Map<String, Object> describe(MessageExt message) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", message.getTopic());
        fields.put("broker", message.getBrokerName());
        fields.put("queue", message.getQueueId());
        fields.put("offset", message.getQueueOffset());
        fields.put("msg_id", message.getMsgId());
        if (message instanceof MessageClientExt) {
            fields.put("offset_msg_id", ((MessageClientExt) message).getOffsetMsgId());
        }
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        CRC32 crc = new CRC32();
        crc.update(body);
        fields.put("body", body.length > BODY_BYTES_MAX ? null : new String(body, StandardCharsets.UTF_8));
        fields.put("length", body.length);
        fields.put("crc", crc.getValue());
        fields.put("tags", message.getTags());
        fields.put("keys", message.getKeys());
        fields.put("flag", message.getFlag());
        fields.put("sys_flag", message.getSysFlag());
        fields.put("reconsume_times", message.getReconsumeTimes());
        fields.put("store_size", message.getStoreSize());
        fields.put("physical_offset", message.getCommitLogOffset());
        fields.put("born_host", String.valueOf(message.getBornHost()));
        fields.put("store_host", String.valueOf(message.getStoreHost()));
        fields.put("born_ms", message.getBornTimestamp());
        fields.put("store_ms", message.getStoreTimestamp());
        fields.put("seen_ms", System.currentTimeMillis());
        fields.put("properties", new TreeMap<>(message.getProperties()));
        return fields;
    }
}
