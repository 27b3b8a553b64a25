import com.alibaba.fastjson.JSON;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.broker.processor.PopMessageProcessor;
import org.apache.rocketmq.common.KeyBuilder;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.constant.PermName;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.common.utils.MessageUtils;
import org.apache.rocketmq.remoting.protocol.*;
import org.apache.rocketmq.remoting.protocol.admin.*;
import org.apache.rocketmq.remoting.protocol.body.*;
import org.apache.rocketmq.remoting.protocol.header.*;
import org.apache.rocketmq.store.pop.*;

/** What the classes of RocketMQ 5.5.0 make of fixed inputs.  See README.md beside this file for the command. */
public class Golden {
    static final Random random = new Random(5_5_0);
    static final String ALPHABET = "abcXYZ_019é漢%|-";

    static String word(int longest) {
        StringBuilder text = new StringBuilder();
        for (int n = 1 + random.nextInt(longest); n > 0; n--) {
            text.append(random.nextInt(40) == 0 ? "😀" : ALPHABET.charAt(random.nextInt(ALPHABET.length())));
        }
        return text.toString();
    }

    static List<Object> hashes() {
        List<Object> found = new ArrayList<>();
        List<String> texts = new ArrayList<>(List.of("", "a", "TagA", "TopicA#k1", "polygenelubricants", "Aa", "BB", "\u0000\uffff", "x".repeat(300)));
        for (int i = 0; i < 60; i++) texts.add(word(1 + i * 2));
        for (String text : texts) found.add(List.of(text, text.hashCode()));
        return found;
    }

    static List<Object> orders() {
        List<Object> found = new ArrayList<>();
        int[] counts = {1, 2, 3, 5, 8, 9, 12, 13, 20, 25, 40, 90, 96, 97, 98, 130, 200};
        for (int count : counts) {
            for (int buckets : new int[] {16, 128, 256}) {
                LinkedHashSet<String> names = new LinkedHashSet<>();
                while (names.size() < count) names.add(word(10));
                HashMap<String, String> map = new HashMap<>(buckets);
                for (String name : names) map.put(name, "");
                found.add(List.of(buckets, new ArrayList<>(names), new ArrayList<>(map.keySet())));
            }
        }
        List<String> colliding = new ArrayList<>();
        for (int i = 0; i < 9; i++) {
            StringBuilder name = new StringBuilder();
            for (int bit = 8; bit > 0; bit /= 2) name.append((i & bit) == 0 ? "Aa" : "BB");
            colliding.add(name.toString());
        }
        for (List<String> others : List.of(List.<String>of(), List.of("a", "b", "c"), List.of("KEYS", "orderId", "x"), List.of("UNIQ_KEY", "CLUSTER", "DELAY"))) {
            List<String> names = new ArrayList<>(others);
            names.addAll(colliding);
            HashMap<String, String> map = new HashMap<>();
            for (String name : names) map.put(name, "");
            found.add(List.of(16, names, new ArrayList<>(map.keySet())));
        }
        return found;
    }

    /** The steps of AbstractSendMessageProcessor.buildMsgContext and SendMessageProcessor that change the property string. */
    static List<Object> stored() {
        String key = "7F000001000018B4AAC2000102030405";
        List<String> sent = new ArrayList<>(List.of("", "\u0002", "a", "a\u0001", "\u0001b", "a\u0001b", "a\u0001b\u0002", "a\u0001b\u0001c\u0002", "a\u0001b\u0002\u0002c\u0001d",
            "a\u00011\u0002a\u00012\u0002", "TAGS\u0001TagA\u0002a\u00011\u0002TAGS\u0001TagB\u0002", "POP_CK\u00011 2 3\u0002a\u0001b\u0002", "xPOP_CK\u00011\u0002POP_CK\u00012\u0002",
            "CLUSTER\u0001mine\u0002MSG_REGION\u0001r\u0002TRACE_ON\u0001false\u0002", "UNIQ_KEY\u0001" + key + "\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002KEYS\u0001k1 k2\u0002orderId\u00011\u0002",
            "WAIT\u0001true\u0002DELAY\u00013\u0002PGROUP\u0001g\u0002TRAN_MSG\u0001true\u0002", "100%\u0001%s%d\u0002", "Aa\u00011\u0002BB\u00012\u0002AaAa\u00013\u0002BBBB\u00014\u0002AaBB\u00015\u0002",
            "key\u0001 value with spaces \u0002汉字\u0001é😀\u0002"));
        for (int count : new int[] {3, 7, 15, 31, 32, 33, 60, 92, 93, 94, 95, 96, 97, 98, 120, 200}) {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < count; i++) text.append(word(6)).append('\u0001').append(word(4)).append('\u0002');
            if (count % 2 == 0) text.append("POP_CK\u0001x\u0002");
            sent.add(text.toString());
        }
        List<Object> found = new ArrayList<>();
        for (String text : sent) {
            Map<String, String> first = MessageDecoder.string2messageProperties(text);
            first.put(MessageConst.PROPERTY_MSG_REGION, "DefaultRegion");
            first.put(MessageConst.PROPERTY_TRACE_SWITCH, "true");
            String between = MessageUtils.deleteProperty(MessageDecoder.messageProperties2String(first), MessageConst.PROPERTY_POP_CK);
            Map<String, String> second = MessageDecoder.string2messageProperties(between);
            String unique = second.get(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
            if (unique == null || unique.length() <= 0) second.put(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, key);
            second.put(MessageConst.PROPERTY_CLUSTER, "DefaultCluster");
            found.add(List.of(text, MessageDecoder.messageProperties2String(second)));
        }
        return found;
    }

    static List<Object> deleted() {
        List<Object> found = new ArrayList<>();
        for (String text : List.of("", "POP_CK", "POP_CK\u00011", "POP_CK\u00011\u0002", "a\u0001b\u0002POP_CK\u00011\u0002c\u0001d\u0002", "xPOP_CK\u00011\u0002", "a\u0001POP_CK\u0002POP_CK\u0001", "a\u0001b\u0002POP_CK\u00011"))
            found.add(List.of(text, MessageUtils.deleteProperty(text, "POP_CK")));
        return found;
    }

    static List<Object> names() {
        List<Object> found = new ArrayList<>();
        for (String name : new String[] {"", " ", "\t\n", "\u00a0", "\u3000", "a b", "TopicTest", "a.b", "a/b", "..", "é", "%RETRY%g", "%DLQ%" + "x".repeat(250), "%DLQ%" + "x".repeat(251), "x".repeat(120), "x".repeat(121), "x".repeat(127), "x".repeat(128), "a|b-c_d%1", "a$b", "a+b", "\u0000"})
            found.add(List.of(name, TopicValidator.validateTopic(name).getRemark(), TopicValidator.validateGroup(name).getRemark(), TopicValidator.isSystemTopic(name)));
        return found;
    }

    static MessageExt message(boolean v6, int topicLength) throws Exception {
        MessageExt message = new MessageExt();
        message.setTopic(topicLength == 0 ? "TopicA" : "x".repeat(topicLength));
        message.setBody("hello".getBytes());
        message.setBodyCRC(UtilAll.crc32(message.getBody()));
        message.setQueueId(3);
        message.setFlag(7);
        message.setQueueOffset(42);
        message.setCommitLogOffset(1L << 33);
        message.setSysFlag(v6 ? 0x30 : 0);
        message.setBornTimestamp(1700000000123L);
        message.setBornHost(new InetSocketAddress(v6 ? "2001:db8::1" : "10.1.2.3", 54321));
        message.setStoreTimestamp(1700000000999L);
        message.setStoreHost(new InetSocketAddress(v6 ? "2001:db8::2" : "127.0.0.1", 10911));
        message.setReconsumeTimes(2);
        message.setPreparedTransactionOffset(99);
        MessageAccessor.setProperties(message, new HashMap<>(Map.of("TAGS", "TagA", "KEYS", "k1 k2")));
        return message;
    }

    static Map<String, Object> units() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        found.put("v4", UtilAll.bytes2string(MessageDecoder.encode(message(false, 0), false)));
        found.put("v6", UtilAll.bytes2string(MessageDecoder.encode(message(true, 0), false)));
        Message one = new Message("t", "TagA", "k", 5, "body".getBytes(), true);
        Message two = new Message("t", "empty".getBytes());
        two.putUserProperty("名", "值");
        found.put("batch", UtilAll.bytes2string(MessageDecoder.encodeMessages(List.of(one, two))));
        found.put("id_v4", MessageDecoder.createMessageId(ByteBuffer.allocate(16), message(false, 0).getStoreHostBytes(), 1L << 33));
        found.put("id_v6", MessageDecoder.createMessageId(ByteBuffer.allocate(28), message(true, 0).getStoreHostBytes(), 1L << 33));
        ByteBuffer crc = ByteBuffer.allocate(20);
        MessageDecoder.createCrc32(crc, 443450849);
        found.put("crc32_property", UtilAll.bytes2string(crc.array()));
        return found;
    }

    static List<Object> frames() throws Exception {
        SendMessageRequestHeaderV2 send = new SendMessageRequestHeaderV2();
        send.setA("PG"); send.setB("TopicTest"); send.setC("TBW102"); send.setD(4); send.setE(3); send.setF(0); send.setG(1700000000000L); send.setH(0);
        send.setI("KEYS\u0001k\u0002TAGS\u0001\"é\\\u0002"); send.setJ(0); send.setK(false); send.setL(16); send.setM(false); send.setBrokerName("broker-a");
        QueryConsumerOffsetRequestHeader query = new QueryConsumerOffsetRequestHeader();
        query.setConsumerGroup("G"); query.setTopic("T"); query.setQueueId(1); query.setSetZeroIfNotFound(true);
        PullMessageResponseHeader pull = new PullMessageResponseHeader();
        pull.setSuggestWhichBrokerId(0L); pull.setNextBeginOffset(33L); pull.setMinOffset(0L); pull.setMaxOffset(64L); pull.setTopicSysFlag(0); pull.setGroupSysFlag(0);
        SendMessageResponseHeader sent = new SendMessageResponseHeader();
        sent.setMsgId("7F00000100002A9F0000000000000190"); sent.setQueueId(3); sent.setQueueOffset(12345L); sent.setTransactionId("7F000001000018B4AAC2000102030405");
        List<Object> found = new ArrayList<>();
        for (SerializeType form : SerializeType.values()) {
            RemotingCommand command = RemotingCommand.createRequestCommand(310, send);
            command.setBody("hello".getBytes());
            found.add(frame("send", form, command));
            found.add(frame("query", form, RemotingCommand.createRequestCommand(14, query)));
            command = RemotingCommand.createRequestCommand(11, null);
            command.markOnewayRPC();
            found.add(frame("bare", form, command));
            found.add(frame("pop", form, RemotingCommand.createRequestCommand(200050, null)));
            command = RemotingCommand.createResponseCommandWithHeader(0, pull);
            command.setRemark("FOUND");
            command.setBody(new byte[] {1, 2, 3});
            found.add(frame("pulled", form, command));
            command = RemotingCommand.createResponseCommandWithHeader(0, sent);
            command.addExtField("MSG_REGION", "DefaultRegion");
            command.addExtField("TRACE_ON", "true");
            found.add(frame("sent", form, command));
            found.add(frame("plain", form, RemotingCommand.createResponseCommand(1, "re\u0001\u007f\"\\/é\u2028😀\b\f\n\r\t\u000b<>&'")));
            found.add(frame("empty", form, RemotingCommand.createResponseCommandWithHeader(0, new PullMessageResponseHeader())));
        }
        return found;
    }

    static List<Object> frame(String name, SerializeType form, RemotingCommand command) {
        command.setOpaque(7);
        command.setVersion(513);
        command.setSerializeTypeCurrentRPC(form);
        io.netty.buffer.ByteBuf out = io.netty.buffer.Unpooled.buffer();
        command.fastEncodeHeader(out);
        if (command.getBody() != null) out.writeBytes(command.getBody());
        byte[] whole = new byte[out.readableBytes()];
        out.readBytes(whole);
        return List.of(name, form.name(), UtilAll.bytes2string(whole));
    }

    static Map<String, Object> texts() {
        Map<String, Object> found = new TreeMap<>();
        TopicStatsTable stats = new TopicStatsTable();
        TopicOffset offset = new TopicOffset();
        offset.setMaxOffset(5);
        stats.getOffsetTable().put(new MessageQueue("t\"q", "b", 2), offset);
        found.put("queue_keys", RemotingSerializable.toJson(stats, false));
        found.put("queue_keys_pretty", RemotingSerializable.toJson(stats, true));
        Map<String, Object> value = new TreeMap<>();
        value.put("bools", List.of(true, false));
        value.put("doubles", List.of(1.5, 1e7, 100.0, 9.99e-4, 1.5e-10, -2.5e33, 12345678.9));
        value.put("empty_list", List.of());
        value.put("empty_map", Map.of());
        value.put("empty_set", new HashSet<>());
        value.put("integer_keys", new TreeMap<>(Map.of(0, 5L, 11, 9L)));
        value.put("ints", new int[] {1, 2, 3});
        value.put("nested", List.of(new TreeMap<>(Map.of("a", 1)), List.of("x")));
        value.put("number_set", new TreeSet<>(List.of(1, 2)));
        value.put("text", "\u0000\u0001\b\t\n\u000b\f\r\u001f\"\\/'<>&\u007f\u0080\u2028é漢😀");
        value.put("texts", List.of("a", "b"));
        found.put("value", RemotingSerializable.toJson(value, false));
        found.put("value_pretty", RemotingSerializable.toJson(value, true));
        return found;
    }

    static String error(java.util.concurrent.Callable<Object> call) {
        try {
            return String.valueOf(call.call());
        } catch (Exception e) {
            return null;
        }
    }

    static Map<String, Object> pop() {
        Map<String, Object> found = new TreeMap<>();
        List<Object> receipts = new ArrayList<>();
        for (String topic : List.of("T", "%RETRY%g_T", "%RETRY%g+T", "%RETRY%g")) {
            receipts.add(List.of(topic, ExtraInfoUtil.buildExtraInfo(5, 1700000000000L, 60000, 3, topic, "b", 2, 7), ExtraInfoUtil.buildExtraInfo(5, 1700000000000L, 60000, 999, topic, "b", 2)));
        }
        found.put("receipts", receipts);
        StringBuilder starts = new StringBuilder(), offsets = new StringBuilder(), counts = new StringBuilder();
        for (String topic : List.of("T", "%RETRY%g_T", "%RETRY%g+T")) {
            ExtraInfoUtil.buildStartOffsetInfo(starts, topic, 1, 1L << 40);
            ExtraInfoUtil.buildMsgOffsetInfo(offsets, topic, 1, List.of(3L, 4L, 1L << 40));
            ExtraInfoUtil.buildQueueIdOrderCountInfo(counts, topic, 1, 2);
            ExtraInfoUtil.buildQueueOffsetOrderCountInfo(counts, topic, 1, 8, 2);
        }
        found.put("infos", List.of(starts.toString(), offsets.toString(), counts.toString()));
        List<Object> parsed = new ArrayList<>();
        for (String info : List.of("0 1 5", "0 1 5;1 1 6", "0 1", "0 1 5;0 1 6", "0 1 5 6", "0 1 x", "0 1 5,6", ";", "a b 5")) {
            Map<String, Object> one = new TreeMap<>();
            one.put("info", info);
            one.put("starts", error(() -> new TreeMap<>(ExtraInfoUtil.parseStartOffsetInfo(info))));
            one.put("offsets", error(() -> new TreeMap<>(ExtraInfoUtil.parseMsgOffsetInfo(info))));
            one.put("counts", error(() -> new TreeMap<>(ExtraInfoUtil.parseOrderCountInfo(info))));
            parsed.add(one);
        }
        found.put("parsed", parsed);
        PopCheckPoint point = new PopCheckPoint();
        List<String> records = new ArrayList<>();
        records.add(com.alibaba.fastjson2.JSON.toJSONString(point));
        point.setStartOffset(5); point.setPopTime(1700000000000L); point.setInvisibleTime(60000); point.setNum((byte) 2); point.setQueueId(3);
        point.setTopic("T\"é\u0001/"); point.setCId("g"); point.addDiff(0); point.addDiff(4); point.setBrokerName("b");
        records.add(com.alibaba.fastjson2.JSON.toJSONString(point));
        point.setBitMap(-1); point.setReviveOffset(9); point.setRePutTimes("2"); point.setSuspend(true);
        records.add(com.alibaba.fastjson2.JSON.toJSONString(point));
        BatchAckMsg ack = new BatchAckMsg();
        records.add(com.alibaba.fastjson2.JSON.toJSONString(new AckMsg()));
        records.add(com.alibaba.fastjson2.JSON.toJSONString(ack));
        ack.setAckOffset(-1); ack.setStartOffset(5); ack.setConsumerGroup("g"); ack.setTopic("T"); ack.setQueueId(3); ack.setPopTime(17); ack.setBrokerName("b");
        ack.getAckOffsetList().addAll(List.of(5L, 9L));
        records.add(com.alibaba.fastjson2.JSON.toJSONString(ack));
        found.put("records", records);
        BatchAck batch = new BatchAck();
        List<Object> sets = new ArrayList<>();
        for (int[] bits : new int[][] {{}, {0}, {7}, {8}, {0, 9, 31}, {63}}) {
            BitSet set = new BitSet();
            for (int bit : bits) set.set(bit);
            batch.setBitSet(set);
            sets.add(Arrays.asList(bits, com.alibaba.fastjson2.JSON.parseObject(com.alibaba.fastjson2.JSON.toJSONString(batch)).get("b")));
        }
        found.put("bit_sets", sets);
        batch.setConsumerGroup("g"); batch.setTopic("T"); batch.setRetry("1"); batch.setStartOffset(5); batch.setQueueId(3); batch.setReviveQueueId(7); batch.setPopTime(17); batch.setInvisibleTime(60);
        BatchAckMessageRequestBody request = new BatchAckMessageRequestBody();
        request.setBrokerName("b"); request.setAcks(List.of(batch));
        found.put("batch", new String(request.encode(), StandardCharsets.UTF_8));
        found.put("keys", List.of(PopMessageProcessor.genCkUniqueId(point), PopMessageProcessor.genAckUniqueId(ack), PopMessageProcessor.genBatchAckUniqueId(ack)));
        List<Object> plain = new ArrayList<>();
        for (String topic : List.of("T", "%RETRY%g_T", "%RETRY%g+T", "%RETRY%g_a_b", "%RETRY%g+a_b")) plain.add(List.of(topic, KeyBuilder.parseNormalTopic(topic, "g"), topic.equals("T") ? "" : KeyBuilder.parseGroup(topic)));
        found.put("plain_topics", plain);
        MessageExtBrokerInner record = new MessageExtBrokerInner();
        record.setTags("bAck"); record.setDeliverTimeMs(1700000060000L); MessageAccessor.putProperty(record, "UNIQ_KEY", "key");
        String due = MessageDecoder.messageProperties2String(record.getProperties());
        MessageAccessor.putProperty(record, "TIMER_OUT_MS", "1700000059000"); MessageAccessor.putProperty(record, "REAL_TOPIC", "rmq_sys_REVIVE_LOG_c"); MessageAccessor.putProperty(record, "REAL_QID", "7");
        found.put("record_properties", List.of(due, MessageDecoder.messageProperties2String(record.getProperties())));
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> all = new TreeMap<>();
        all.put("hashes", hashes());
        all.put("orders", orders());
        all.put("stored_properties", stored());
        all.put("deleted_property", deleted());
        all.put("names", names());
        all.put("units", units());
        all.put("frames", frames());
        all.put("json", texts());
        all.put("pop", pop());
        Map<String, Object> reserved = new TreeMap<>();
        reserved.put("reserved_properties", new TreeSet<>(MessageConst.STRING_HASH_SET));
        reserved.put("system_topics", new TreeSet<>(TopicValidator.getSystemTopicSet()));
        reserved.put("not_sendable_topics", new TreeSet<>(TopicValidator.getNotAllowedSendTopicSet()));
        all.put("sets", reserved);
        all.put("perms", List.of(PermName.perm2String(0), PermName.perm2String(2), PermName.perm2String(6), PermName.perm2String(7)));
        StringBuilder ascii = new StringBuilder();
        for (char unit : JSON.toJSONString(all, true).toCharArray()) ascii.append(unit < 0x7f ? String.valueOf(unit) : String.format("\\u%04x", (int) unit));
        System.out.println(ascii);
    }
}
