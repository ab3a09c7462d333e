import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import org.apache.rocketmq.client.apis.*;
import org.apache.rocketmq.client.apis.consumer.*;
import org.apache.rocketmq.client.apis.message.*;
import org.apache.rocketmq.client.apis.producer.*;

/** One case of the gRPC client: a tag and a group of its own on topics that all cases share. */
class GrpcScene extends Runner.Closing {
  static final String PREFIX = Runner.env("PREFIX", "grpc");
  static final String RUN = Long.toString(System.currentTimeMillis() % 100_000_000L, 36);
  static final String NORMAL = PREFIX + "_normal";
  static final String FIFO = PREFIX + "_fifo";
  static final String DELAY = PREFIX + "_delay";
  static final String TRANSACTION = PREFIX + "_transaction";

  /** Groups that are configured beforehand: one consumes in order, one gives up after one retry. */
  static final String ORDERLY_GROUP = PREFIX + "_g_fifo";

  static final String IMPATIENT_GROUP = PREFIX + "_g_dlq";

  static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

  /** How long a receive waits, and how long what it gave is kept from others where acked at once. */
  static final Duration AWAIT = Duration.ofSeconds(3);

  static final Duration INVISIBLE = Duration.ofSeconds(30);

  final String tag;
  final String group;

  GrpcScene(String name) {
    tag = name + RUN;
    group = PREFIX + "_g_" + name + "_" + RUN;
  }

  static ClientConfiguration client() {
    return ClientConfiguration.newBuilder()
        .setEndpoints(Runner.env("PROXY_ADDR", "127.0.0.1:8081"))
        .enableSsl(false)
        .setRequestTimeout(Duration.ofSeconds(10))
        .build();
  }

  Producer producer(String... topics) throws Exception {
    return started(PROVIDER.newProducerBuilder().setTopics(topics));
  }

  Producer started(ProducerBuilder builder) throws Exception {
    Producer producer = builder.setClientConfiguration(client()).build();
    closing(producer);
    return producer;
  }

  /** A consumer of a group that has nothing left from before. */
  SimpleConsumer simple(String group, String topic, FilterExpression filter) throws Exception {
    SimpleConsumer consumer =
        PROVIDER
            .newSimpleConsumerBuilder()
            .setClientConfiguration(client())
            .setConsumerGroup(group)
            .setAwaitDuration(AWAIT)
            .setSubscriptionExpressions(Map.of(topic, filter))
            .build();
    closing(consumer);
    // The group begins where a queue ends when it is first asked for: all queues, before the sends.
    for (int i = 0; i < 5; i++) {
      for (MessageView old : consumer.receive(32, INVISIBLE)) consumer.ack(old);
    }
    return consumer;
  }

  void push(String group, String topic, Predicate<MessageView> consumes) throws Exception {
    PushConsumer consumer =
        PROVIDER
            .newPushConsumerBuilder()
            .setClientConfiguration(client())
            .setConsumerGroup(group)
            .setSubscriptionExpressions(Map.of(topic, tagged(tag)))
            .setMessageListener(
                message ->
                    consumes.test(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE)
            .build();
    closing(consumer);
    // As above: it must have asked for every queue.
    Thread.sleep(AWAIT.toMillis());
  }

  /** Receives until there are `count` different bodies, or `seconds` are over. */
  static Map<String, MessageView> drain(
      SimpleConsumer consumer, int count, int seconds, Duration invisible, boolean ack)
      throws Exception {
    Map<String, MessageView> got = new HashMap<>();
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    while (got.size() < count && System.nanoTime() < end) {
      for (MessageView message : consumer.receive(32, invisible)) {
        got.put(text(message), message);
        if (ack) consumer.ack(message);
      }
    }
    return got;
  }

  MessageBuilder message(String topic, String body) {
    return message(topic, tag, body);
  }

  static MessageBuilder message(String topic, String tag, String body) {
    return PROVIDER
        .newMessageBuilder()
        .setTopic(topic)
        .setTag(tag)
        .setKeys("key-" + tag)
        .setBody(body.getBytes(StandardCharsets.UTF_8));
  }

  static FilterExpression tagged(String tags) {
    return new FilterExpression(tags, FilterExpressionType.TAG);
  }

  static String text(MessageView message) {
    return StandardCharsets.UTF_8.decode(message.getBody()).toString();
  }

  private void closing(AutoCloseable client) {
    closers.add(
        () -> {
          try {
            client.close();
          } catch (Exception e) {
            throw new IllegalStateException(e);
          }
        });
  }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static void eq(Object found, Object expected, String what) {
    check(Objects.equals(found, expected), what + ": expected " + expected + ", got " + found);
  }

  static void await(int seconds, Supplier<String> what, BooleanSupplier holds) throws Exception {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    while (!holds.getAsBoolean()) {
      check(System.nanoTime() < end, "timed out waiting for " + what.get());
      Thread.sleep(20);
    }
  }
}
