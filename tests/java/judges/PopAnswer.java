import java.lang.reflect.Method;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageResponseHeader;

/**
 * The receipts that the Java client gives the messages of a pop's answer, a line each.
 *
 * Arguments: broker, topic, and the answer's fields as `name=value`.  Standard input: its body.
 */
public class PopAnswer {
    public static void main(String[] args) throws Exception {
        RemotingCommand answer = RemotingCommand.createResponseCommand(0, null, PopMessageResponseHeader.class);
        for (int at = 2; at < args.length; at++) {
            String[] field = args[at].split("=", 2);
            answer.addExtField(field[0], field[1]);
        }
        answer.setBody(System.in.readAllBytes());
        MQClientAPIImpl client = new MQClientAPIImpl(new NettyClientConfig(), null, null, new ClientConfig());
        Method read = MQClientAPIImpl.class.getDeclaredMethod(
            "processPopResponse", String.class, RemotingCommand.class, String.class, CommandCustomHeader.class);
        read.setAccessible(true);
        PopResult result = (PopResult) read.invoke(client, args[0], answer, args[1], new PopMessageRequestHeader());
        for (MessageExt message : result.getMsgFoundList()) {
            System.out.println(message.getProperty("POP_CK"));
        }
        System.exit(0);
    }
}
