import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.processor.QueryAssignmentProcessor;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Which queues the stock broker gives a client.
 *
 * Standard input: a case a line, words separated by tabs: strategy, PULL or POP, share, client id, members (comma between them),
 * queues (broker:id, comma between them), in any order.  Standard output: a line each: `!` when it throws, else the queues in the
 * order of the result, each once.
 */
public final class ServerAllocations {
    private ServerAllocations() {
    }

    public static void main(String[] arguments) throws Exception {
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(arguments[0]);
        BrokerController controller =
            new BrokerController(new BrokerConfig(), new NettyServerConfig(), new NettyClientConfig(), store);
        QueryAssignmentProcessor processor = new QueryAssignmentProcessor(controller);
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(processor, line.split("\t", -1)));
        }
        out.flush();
        System.exit(0);
    }

    private static String answer(QueryAssignmentProcessor processor, String[] words) {
        AllocateMessageQueueStrategy strategy =
            words[0].equals("AVG") ? new AllocateMessageQueueAveragely() : new AllocateMessageQueueAveragelyByCircle();
        List<String> members = list(words[4]);
        List<MessageQueue> queues = new ArrayList<>();
        for (String queue : list(words[5])) {
            int colon = queue.lastIndexOf(':');
            queues.add(new MessageQueue("T", queue.substring(0, colon), Integer.parseInt(queue.substring(colon + 1))));
        }
        Collections.sort(members);
        Collections.sort(queues);
        List<MessageQueue> found;
        try {
            found = words[1].equals("POP")
                ? processor.allocate4Pop(strategy, "G", words[3], queues, members, Integer.parseInt(words[2]))
                : strategy.allocate("G", words[3], queues, members);
        } catch (IllegalArgumentException e) {
            return "!";
        }
        Set<String> once = new LinkedHashSet<>();
        for (MessageQueue queue : found) {
            once.add(queue.getBrokerName() + ":" + queue.getQueueId());
        }
        return String.join(",", once);
    }

    private static List<String> list(String text) {
        return text.isEmpty() ? new ArrayList<>() : new ArrayList<>(Arrays.asList(text.split(",")));
    }
}
