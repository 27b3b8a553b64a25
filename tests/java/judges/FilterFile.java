import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;

import org.apache.rocketmq.broker.filter.ConsumerFilterData;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * What the Java broker reads in a `consumerFilter.json`, and how it would write it again.
 *
 * Arguments: properties of a message as `name=value`.  Standard input: the file.  Prints a line for each filter, topic, group and
 * what it says of the message; then an empty line and the file.
 */
public class FilterFile {
    public static void main(String[] args) throws Exception {
        Map<String, String> properties = new HashMap<>();
        for (String arg : args) {
            String[] property = arg.split("=", 2);
            properties.put(property[0], property[1]);
        }
        ConsumerFilterManager manager = new ConsumerFilterManager();
        BrokerConfig config = new BrokerConfig();
        Field bloom = ConsumerFilterManager.class.getDeclaredField("bloomFilter");
        bloom.setAccessible(true);
        bloom.set(manager, BloomFilter.createByFn(config.getMaxErrorRateOfBloomFilter(), config.getExpectConsumerNumUseFilter()));
        manager.decode(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        for (String topic : new TreeSet<>(manager.getFilterDataByTopic().keySet())) {
            Map<String, ConsumerFilterData> filters = manager.getFilterDataByTopic().get(topic).getGroupFilterData();
            for (String group : new TreeSet<>(filters.keySet())) {
                Object says = filters.get(group).getCompiledExpression().evaluate(new MessageEvaluationContext(properties));
                System.out.println(topic + " " + group + " " + says);
            }
        }
        System.out.println();
        System.out.write(manager.encode(true).getBytes(StandardCharsets.UTF_8));
        System.out.flush();
        System.exit(0);
    }
}
