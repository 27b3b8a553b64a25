import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A stock client that is tormented: it does what one line of input says and prints what its application sees, a JSON line each.
 *
 * Input: `run=ID namesrv=HOST:PORT topic=T program=send|send-async|send-oneway|push|orderly count=N ...`; several lines run
 * beside each other, each with client instances of its own.  Arguments on the command line are one such line, after which it ends.
 */
public final class Tortured {
    private final String run;
    private final Map<String, String> asked;

    private Tortured(String line) {
        asked = new HashMap<>();
        for (String word : line.trim().split("\\s+")) {
            int at = word.indexOf('=');
            asked.put(word.substring(0, at), word.substring(at + 1));
        }
        run = asked.getOrDefault("run", "0");
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            new Tortured(String.join(" ", arguments)).perform();
            System.exit(0);
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Tortured one = new Tortured(line);
            Thread thread = new Thread(one::perform, "run-" + one.run);
            thread.setDaemon(true);
            thread.start();
        }
        System.exit(0);
    }

    private void perform() {
        try {
            String program = asked.get("program");
            if (program.startsWith("send")) {
                produce(program);
            } else {
                consume(program.equals("orderly"));
            }
            report("done", "");
        } catch (Throwable wrong) {
            report("crashed", ",\"error\":" + text(wrong.toString()));
        }
    }

    private int number(String name) {
        return Integer.parseInt(asked.get(name));
    }

    private void configure(ClientConfig client) {
        client.setNamesrvAddr(asked.get("namesrv"));
        client.setInstanceName("torture-" + run + "-" + System.nanoTime());
        client.setPollNameServerInterval(number("poll_route_ms"));
        client.setVipChannelEnabled(false);
        client.setUseTLS(false);
    }

    private void produce(String program) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("torture-producers-" + run);
        configure(producer);
        producer.setSendMsgTimeout(number("timeout_ms"));
        producer.setRetryTimesWhenSendFailed(number("retries"));
        producer.setRetryTimesWhenSendAsyncFailed(number("retries"));
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        int count = number("count");
        CountDownLatch open = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            String key = "m-" + i;
            Message message = new Message(asked.get("topic"), "", key, body(key));
            long began = System.nanoTime();
            try {
                if (program.equals("send-async")) {
                    producer.send(message, new SendCallback() {
                        @Override
                        public void onSuccess(SendResult result) {
                            sent(key, result, began);
                            open.countDown();
                        }

                        @Override
                        public void onException(Throwable wrong) {
                            failed(key, wrong, began);
                            open.countDown();
                        }
                    });
                } else if (program.equals("send-oneway")) {
                    producer.sendOneway(message);
                    sent(key, null, began);
                    open.countDown();
                } else {
                    sent(key, producer.send(message), began);
                    open.countDown();
                }
            } catch (Exception wrong) {
                failed(key, wrong, began);
                open.countDown();
            }
            Thread.sleep(number("pause_ms"));
        }
        open.await(number("patience_ms"), TimeUnit.MILLISECONDS);
        Thread.sleep(number("linger_ms"));
        producer.shutdown();
    }

    private byte[] body(String key) {
        StringBuilder body = new StringBuilder(key).append(' ');
        while (body.length() < number("body_bytes")) {
            body.append('x');
        }
        return body.toString().getBytes(StandardCharsets.US_ASCII);
    }

    private void sent(String key, SendResult result, long began) {
        String more = result == null ? "" : ",\"status\":\"" + result.getSendStatus() + "\",\"broker\":"
            + text(result.getMessageQueue().getBrokerName()) + ",\"queue\":" + result.getMessageQueue().getQueueId()
            + ",\"offset\":" + result.getQueueOffset();
        report("sent", ",\"message\":" + text(key) + ",\"took_ms\":" + since(began) + more);
    }

    private void failed(String key, Throwable wrong, long began) {
        int code = 0;
        StringBuilder errors = new StringBuilder();
        for (Throwable cause = wrong; cause != null; cause = cause.getCause()) {
            if (code == 0 && cause instanceof MQBrokerException) {
                code = ((MQBrokerException) cause).getResponseCode();
            } else if (code == 0 && cause instanceof MQClientException) {
                code = ((MQClientException) cause).getResponseCode();
            }
            errors.append(errors.length() == 0 ? "" : " <- ").append(cause.getClass().getSimpleName());
        }
        report("failed", ",\"message\":" + text(key) + ",\"took_ms\":" + since(began) + ",\"code\":" + code
            + ",\"error\":" + text(errors.toString()) + ",\"why\":" + text(String.valueOf(wrong.getMessage())));
    }

    private void consume(boolean orderly) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("torture-consumers-" + run);
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.subscribe(asked.get("topic"), "*");
        CountDownLatch missing = new CountDownLatch(number("count"));
        Set<String> seen = ConcurrentHashMap.newKeySet();
        Set<String> refused = ConcurrentHashMap.newKeySet();
        boolean failFirst = Boolean.parseBoolean(asked.get("fail_first"));
        if (orderly) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                take(messages, seen, missing, failFirst ? refused : null)
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                take(messages, seen, missing, failFirst ? refused : null)
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumer.start();
        report("started", "");
        missing.await(number("patience_ms"), TimeUnit.MILLISECONDS);
        Thread.sleep(number("linger_ms"));
        consumer.shutdown();
    }

    /** Report each message; false, once for each, when messages are refused at first. */
    private boolean take(List<MessageExt> messages, Set<String> seen, CountDownLatch missing, Set<String> refused) {
        boolean good = true;
        for (MessageExt message : messages) {
            String key = message.getKeys();
            boolean refuse = refused != null && refused.add(key);
            report("received", ",\"message\":" + text(key) + ",\"queue\":" + message.getQueueId() + ",\"offset\":"
                + message.getQueueOffset() + ",\"times\":" + message.getReconsumeTimes() + ",\"refused\":" + refuse
                + ",\"body\":" + text(new String(message.getBody(), StandardCharsets.UTF_8)));
            if (refuse) {
                good = false;
            } else if (seen.add(key)) {
                missing.countDown();
            }
        }
        return good;
    }

    private static long since(long began) {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    }

    private void report(String event, String more) {
        String line = "{\"run\":" + text(run) + ",\"event\":\"" + event + "\"" + more + "}";
        synchronized (System.out) {
            System.out.println(line);
        }
    }

    private static String text(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.substring(0, Math.min(text.length(), 300)).toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
