// Cases of the gRPC client rocketmq-client-java, through a proxy.
// env: PROXY_ADDR, PREFIX (of the topics and groups that GrpcScene names), and those of Runner.
// args: parts of names of the cases to run (none = all).
import java.util.*;

public class GrpcSuite {
  static final Map<String, Runner.Case<GrpcScene>> CASES = new LinkedHashMap<>();

  static {
    CASES.put("send_sync_async", GrpcSending::syncAndAsync);
    CASES.put("simple_receive_ack", GrpcConsuming::receiveAndAck);
    CASES.put("simple_redelivery", GrpcConsuming::redelivery);
    CASES.put("simple_change_invisible", GrpcConsuming::changeInvisible);
    CASES.put("push_consume", GrpcConsuming::push);
    CASES.put("push_retry", GrpcConsuming::pushRetry);
    CASES.put("push_dlq", GrpcConsuming::pushDeadLetters);
    CASES.put("tag_or_filter", GrpcConsuming::tags);
    CASES.put("sql_filter", GrpcConsuming::sql);
    CASES.put("fifo_order_simple", GrpcConsuming::fifo);
    CASES.put("delay", GrpcSending::delay);
    CASES.put("delay_recall", GrpcSending::recall);
    CASES.put("transaction", GrpcSending::transaction);
    CASES.put("wrong_message_type", GrpcSending::wrongType);
    CASES.put("unknown_topic", GrpcSending::unknownTopic);
  }

  public static void main(String[] parts) throws Exception {
    Runner.run(CASES, GrpcScene::new, 150, parts);
  }
}
