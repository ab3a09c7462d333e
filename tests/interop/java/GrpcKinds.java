import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * A producer and simple consumers by gRPC, with the settings that the client has by itself, for tests
 * that kill brokers behind the proxy meanwhile. See {@link Noted} for what it writes, {@code ready} and
 * {@code ended} as Kinds does; a delivery begins when it was asked for.
 *
 * <p>env: PROXY_ADDR; arguments: TOPIC GROUP
 */
public final class GrpcKinds {
  private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
  private static final int SENDERS = 2;
  private static final int CONSUMERS = 2;

  /** How long a receive waits, and has what it gives. */
  private static final Duration AWAIT = Duration.ofSeconds(3);

  private static final Duration INVISIBLE = Duration.ofSeconds(15);
  private static final String LEAVE = "leave:" + INVISIBLE.toMillis();

  private final Noted noted = new Noted();
  private final AtomicBoolean end = new AtomicBoolean();
  private final String topic;
  private final String group;

  private GrpcKinds(String topic, String group) throws Exception {
    this.topic = topic;
    this.group = group;
  }

  public static void main(String[] args) throws Exception {
    try {
      new GrpcKinds(args[0], args[1]).run();
      System.exit(0);
    } catch (Exception failed) {
      failed.printStackTrace();
      System.exit(1);
    }
  }

  private static ClientConfiguration client() {
    return ClientConfiguration.newBuilder()
        .setEndpoints(System.getenv("PROXY_ADDR"))
        .enableSsl(false)
        .build();
  }

  private void run() throws Exception {
    List<Thread> consumers = new ArrayList<>();
    for (int i = 0; i < CONSUMERS; i++) {
      SimpleConsumer consumer =
          PROVIDER
              .newSimpleConsumerBuilder()
              .setClientConfiguration(client())
              .setConsumerGroup(group)
              .setAwaitDuration(AWAIT)
              .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
              .build();
      // The group begins where a queue ends when it is first asked for: all queues, before the sends.
      for (int each = 0; each < 4; each++) consumer.receive(16, INVISIBLE);
      String by = String.valueOf((char) ('A' + i));
      consumers.add(started(() -> consume(consumer, by)));
    }
    Producer producer =
        PROVIDER.newProducerBuilder().setClientConfiguration(client()).setTopics(topic).build();
    List<Thread> senders = new ArrayList<>();
    for (int i = 0; i < SENDERS; i++) {
      int sender = i;
      senders.add(started(() -> send(producer, sender)));
    }
    noted.line("ready");
    for (Thread thread : senders) thread.join();
    noted.line("ended");
    Noted.await(Noted.END);
    end.set(true);
    for (Thread thread : consumers) thread.join();
    producer.close();
  }

  private static Thread started(Runnable work) {
    Thread thread = new Thread(work);
    thread.start();
    return thread;
  }

  private void send(Producer producer, int sender) {
    for (long number = 1; !Files.exists(Noted.STOP); number++) {
      String key = "grpc." + sender + "." + number;
      String fate = number % 10 == 0 ? LEAVE : "once";
      Message message =
          PROVIDER
              .newMessageBuilder()
              .setTopic(topic)
              .setKeys(key)
              .addProperty(Noted.FATE, fate)
              .setBody(Noted.body(key))
              .build();
      long from = Noted.now();
      try {
        producer.send(message);
        noted.sent(key, fate, from, "ok");
        Noted.sleep(30);
      } catch (ClientException failed) {
        noted.sent(key, fate, from, "unknown");
        System.out.println(key + ": " + failed);
        Noted.sleep(50);
      }
    }
  }

  private void consume(SimpleConsumer consumer, String by) {
    while (!end.get()) {
      long asked = Noted.now();
      try {
        for (MessageView message : consumer.receive(16, INVISIBLE)) {
          take(consumer, message, asked, by);
        }
      } catch (ClientException failed) {
        System.out.println(by + ": " + failed);
        Noted.sleep(50);
      }
    }
  }

  private void take(SimpleConsumer consumer, MessageView message, long asked, String by) {
    String key = message.getKeys().iterator().next();
    String fate = message.getProperties().get(Noted.FATE);
    boolean takes = !fate.equals(LEAVE) || message.getDeliveryAttempt() > 1;
    ByteBuffer buffer = message.getBody();
    byte[] body = new byte[buffer.remaining()];
    buffer.get(body);
    String rest =
        String.format(
            "%d %d %s %s",
            message.getDeliveryAttempt(),
            message.getBornTimestamp(),
            takes ? "took" : "refused",
            Noted.whole(key, body) ? "whole" : "spoilt");
    noted.got(key, asked, by, "grpc/0@0:0", rest);
    if (!takes) return;
    long from = Noted.now();
    try {
      consumer.ack(message);
      noted.acked(key, from, "ok");
    } catch (ClientException failed) {
      noted.acked(key, from, "unknown");
      System.out.println(key + ": " + failed);
    }
  }
}
