import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.store.OffsetSerializeWrapper;

/** Reads the file of a broadcasting consumer's progress from the input as the Java client does, and writes it as that would. */
public class LocalOffsets {
    public static void main(String[] args) throws Exception {
        String text = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        OffsetSerializeWrapper read = OffsetSerializeWrapper.fromJson(text, OffsetSerializeWrapper.class);
        System.out.print(read.toJson(true));
    }
}
