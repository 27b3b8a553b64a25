package rmq;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
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

/** What all clients share: how they are set up, how messages and queues are told to Python. */
final class Clients {
    /** Longer bodies are told by length and CRC only. */
    private static final int BODY_TOLD_MAX = 200;
    /** A busy machine is no lost server: by default a client gives up after 3 s, and says that there is no route. */
    private static final int SERVER_MS_MAX = 30_000;

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

    /** Only clients of 5.x have the setter. */
    private static void trace(ClientConfig client) {
        try {
            client.getClass().getMethod("setEnableTrace", boolean.class).invoke(client, true);
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

    static Map<String, Object> tell(MessageQueue queue) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("topic", queue.getTopic());
        told.put("broker", queue.getBrokerName());
        told.put("queue", queue.getQueueId());
        return told;
    }

    static List<Object> tellQueues(Iterable<MessageQueue> queues) {
        List<MessageQueue> sorted = new ArrayList<>();
        queues.forEach(sorted::add);
        sorted.sort(null);
        List<Object> told = new ArrayList<>();
        sorted.forEach(queue -> told.add(tell(queue)));
        return told;
    }

    static List<Object> tellMessages(Iterable<MessageExt> messages) {
        List<Object> told = new ArrayList<>();
        if (messages != null) {
            messages.forEach(message -> told.add(tell(message)));
        }
        return told;
    }

    static Map<String, Object> tell(MessageExt message) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("topic", message.getTopic());
        told.put("broker", message.getBrokerName());
        told.put("queue", message.getQueueId());
        told.put("offset", message.getQueueOffset());
        told.put("msg_id", message.getMsgId());
        if (message instanceof MessageClientExt) {
            told.put("offset_msg_id", ((MessageClientExt) message).getOffsetMsgId());
        }
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        CRC32 crc = new CRC32();
        crc.update(body);
        told.put("body", body.length > BODY_TOLD_MAX ? null : new String(body, StandardCharsets.UTF_8));
        told.put("length", body.length);
        told.put("crc", crc.getValue());
        told.put("tags", message.getTags());
        told.put("keys", message.getKeys());
        told.put("flag", message.getFlag());
        told.put("sys_flag", message.getSysFlag());
        told.put("reconsume_times", message.getReconsumeTimes());
        told.put("store_size", message.getStoreSize());
        told.put("physical_offset", message.getCommitLogOffset());
        told.put("born_host", String.valueOf(message.getBornHost()));
        told.put("store_host", String.valueOf(message.getStoreHost()));
        told.put("born_ms", message.getBornTimestamp());
        told.put("store_ms", message.getStoreTimestamp());
        told.put("properties", new TreeMap<>(message.getProperties()));
        return told;
    }
}
