import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;

import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.ConfigManager;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * How the Java broker writes each configuration file again that it has read.
 *
 * Arguments: managers' classes.  Standard input: a file for each, a NUL behind it.  Prints the same of what each has written.
 */
public class TableFile {
    public static void main(String[] args) throws Exception {
        String[] files = new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\0");
        StringBuilder written = new StringBuilder();
        for (int i = 0; i < args.length; i++) {
            ConfigManager manager = made(Class.forName(args[i]));
            if (manager instanceof ConsumerFilterManager) {
                BrokerConfig config = new BrokerConfig();
                Field bloom = ConsumerFilterManager.class.getDeclaredField("bloomFilter");
                bloom.setAccessible(true);
                bloom.set(manager, BloomFilter.createByFn(config.getMaxErrorRateOfBloomFilter(), config.getExpectConsumerNumUseFilter()));
            }
            manager.decode(files[i]);
            written.append(manager.encode(true)).append('\0');
        }
        System.out.write(written.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
        System.exit(0);
    }

    /** One that has its file's path from nobody, or from its maker. */
    private static ConfigManager made(Class<?> manager) throws Exception {
        try {
            return (ConfigManager) manager.getConstructor().newInstance();
        } catch (NoSuchMethodException none) {
            return (ConfigManager) manager.getConstructor(String.class).newInstance("none");
        }
    }
}
