import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What the Java strategies give to one member.  A case is a line of the input: strategy, client id, client ids (commas), queues
 * (broker:id, commas), with tabs between; the answer is a line: name of the strategy, a tab, the queues.
 */
public class Allocations {
    static final AllocateMachineRoomNearby.MachineRoomResolver ROOMS = new AllocateMachineRoomNearby.MachineRoomResolver() {
        @Override public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("@")[0];
        }

        @Override public String consumerDeployIn(String clientId) {
            return clientId.split("-")[0];
        }
    };

    public static void main(String[] args) throws Exception {
        AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
        room.setConsumeridcs(new HashSet<>(Arrays.asList("r1", "r2")));
        AllocateMessageQueueStrategy average = new AllocateMessageQueueAveragely();
        Map<String, AllocateMessageQueueStrategy> strategies = Map.of(
            "average", average,
            "circle", new AllocateMessageQueueAveragelyByCircle(),
            "room", room,
            "nearby", new AllocateMachineRoomNearby(average, ROOMS),
            "nearby-circle", new AllocateMachineRoomNearby(new AllocateMessageQueueAveragelyByCircle(), ROOMS),
            "hash", new AllocateMessageQueueConsistentHash(),
            "hash-3", new AllocateMessageQueueConsistentHash(3));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            List<MessageQueue> queues = new ArrayList<>();
            for (String queue : words[3].split(",")) {
                int colon = queue.lastIndexOf(':');
                queues.add(new MessageQueue("T", queue.substring(0, colon), Integer.parseInt(queue.substring(colon + 1))));
            }
            AllocateMessageQueueStrategy strategy = strategies.get(words[0]);
            out.append(strategy.getName()).append('\t');
            for (MessageQueue queue : strategy.allocate("G", words[1], queues, Arrays.asList(words[2].split(",")))) {
                out.append(queue.getBrokerName()).append(':').append(queue.getQueueId()).append(',');
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
