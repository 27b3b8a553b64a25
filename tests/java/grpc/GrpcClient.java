import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * A stock gRPC client: sends, receives, acknowledges, asks for other invisible times, or fails until its messages are dead.
 *
 * Arguments: endpoints, topic, group, count, seconds, what to do:
 * `ack`: receive all, acknowledge each, see that none comes again;
 * `hasten`: receive all, let each come again soon, acknowledge the second time: first by what was got the first time, then twice;
 * `fail`: a listener that fails, for so many seconds.
 * Standard output: a line for each thing that happened: `sent body`, `got body attempt`, `acked body`, `again body`, `late body outcome`,
 * `twice body outcome`, `done`; an outcome is `OK` or what the client threw.
 */
public final class GrpcClient {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Duration INVISIBLE = Duration.ofSeconds(60);

    private GrpcClient() {
    }

    public static void main(String[] words) throws Exception {
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(words[0]).enableSsl(false).setRequestTimeout(Duration.ofSeconds(30)).build();
        String topic = words[1];
        String group = words[2];
        int count = Integer.parseInt(words[3]);
        long end = System.nanoTime() + Duration.ofSeconds(Long.parseLong(words[4])).toNanos();
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build()) {
            for (int i = 0; i < count; i++) {
                String body = words[5] + " " + i;
                producer.send(PROVIDER.newMessageBuilder().setTopic(topic).setTag("TagA").setKeys("key" + i)
                    .setBody(body.getBytes(StandardCharsets.UTF_8)).build());
                say("sent", body);
            }
        }
        if (words[5].equals("fail")) {
            fail(configuration, topic, group, end);
        } else {
            receive(configuration, topic, group, count, end, words[5].equals("hasten"));
        }
        say("done", "");
        System.exit(0);
    }

    private static void receive(ClientConfiguration configuration, String topic, String group, int count, long end, boolean hasten)
        throws Exception {
        Map<String, Integer> got = new HashMap<>();
        Map<String, MessageView> first = new HashMap<>();
        int open = count;
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(3))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build()) {
            int silent = 0;
            while (System.nanoTime() < end && (open > 0 || silent < 2)) {
                List<MessageView> views = consumer.receive(16, INVISIBLE);
                silent = open == 0 && views.isEmpty() ? silent + 1 : 0;
                for (MessageView view : views) {
                    String body = body(view);
                    int times = got.merge(body, 1, Integer::sum);
                    say("got", body + " " + view.getDeliveryAttempt());
                    if (hasten && times == 1) {
                        consumer.changeInvisibleDuration(view, Duration.ofSeconds(1));
                        say("hastened", body);
                        first.put(body, view);
                        continue;
                    }
                    if (hasten) {
                        say("late", body + " " + acknowledged(consumer, first.get(body)));
                    }
                    consumer.ack(view);
                    say("acked", body);
                    open--;
                    if (hasten) {
                        say("twice", body + " " + acknowledged(consumer, view));
                    }
                }
            }
        }
    }

    private static String acknowledged(SimpleConsumer consumer, MessageView view) {
        try {
            consumer.ack(view);
            return "OK";
        } catch (ClientException refused) {
            return refused.getClass().getSimpleName() + " " + refused.getMessage().replaceAll("request-id=[^,\\]]*, ", "");
        }
    }

    private static void fail(ClientConfiguration configuration, String topic, String group, long end) throws Exception {
        Map<String, Integer> got = new ConcurrentHashMap<>();
        try (PushConsumer ignored = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(view -> {
                got.merge(body(view), 1, Integer::sum);
                say("got", body(view) + " " + view.getDeliveryAttempt());
                return ConsumeResult.FAILURE;
            }).build()) {
            while (System.nanoTime() < end && System.in.available() == 0) {
                Thread.sleep(100);
            }
        }
    }

    private static String body(MessageView view) {
        ByteBuffer buffer = view.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static synchronized void say(String what, String body) {
        System.out.println((what + " " + body).trim());
        System.out.flush();
    }
}
