import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * Every kind of message at once by the official client with its default settings, for tests that
 * kill brokers meanwhile. What was done and met is in a {@link Noted ledger}. It prints {@code
 * ready} there when all consumers have their share and sends go on, {@code ended} when the senders
 * have ended, as they do when there is a file {@code stop}; it ends when there is a file {@code end}.
 *
 * <p>env: NAMESRV_ADDR; argument: codes of answers to a send that was not stored
 */
public final class Kinds {
  static final List<String> KINDS =
      List.of("plain", "orderly", "transaction", "delay", "timer", "pop", "retry");
  static final int QUEUES = 4;

  /** How often what a listener refuses comes again before it is a dead letter. */
  static final int MAX_TRIES = 3;

  private static final String BROKER = "broker-a";
  private static final long PATIENCE = 10_000;

  private final Noted noted = new Noted();
  private final List<DefaultMQPushConsumer> consumers = new ArrayList<>();

  private Kinds() throws Exception {}

  public static void main(String[] args) throws Exception {
    try {
      new Kinds().run(Set.of(args[0].split(",")));
      System.exit(0);
    } catch (Exception failed) {
      failed.printStackTrace();
      System.exit(1);
    }
  }

  static String topic(String kind) {
    return "kinds_" + kind;
  }

  static String group(String kind) {
    return "kinds_" + kind + "_g";
  }

  static String namesrv() {
    return System.getenv("NAMESRV_ADDR");
  }

  private void run(Set<String> definite) throws Exception {
    KindSenders senders = new KindSenders(noted, definite);
    create(senders.producer());
    for (String by : List.of("A", "B")) {
      for (String kind : KINDS) {
        consumers.add(KindConsumers.start(kind, by, noted));
      }
    }
    consumers.add(KindConsumers.startDeadLetters(noted));
    for (String kind : KINDS) {
      shared(kind);
    }
    List<Thread> threads = senders.start();
    noted.line("ready");
    for (Thread thread : threads) {
      thread.join();
    }
    noted.line("ended");
    Noted.await(Noted.END);
    consumers.forEach(DefaultMQPushConsumer::shutdown);
    senders.shutdown();
  }

  /** Topics, and the group that pops, before anybody consumes. */
  private static void create(DefaultMQProducer producer) throws Exception {
    MQClientInstance instance = producer.getDefaultMQProducerImpl().getMqClientFactory();
    MQClientAPIImpl api = instance.getMQClientAPIImpl();
    for (String kind : KINDS) {
      producer.createTopic("TBW102", topic(kind), QUEUES, new HashMap<>());
    }
    String broker = null;
    for (int tries = 0; broker == null && tries < 100; tries++) {
      Noted.sleep(100);
      instance.updateTopicRouteInfoFromNameServer(topic("pop"));
      broker = instance.findBrokerAddressInPublish(BROKER);
    }
    SubscriptionGroupConfig config = new SubscriptionGroupConfig();
    config.setGroupName(group("pop"));
    api.createSubscriptionGroup(broker, config, PATIENCE);
    api.setMessageRequestMode(
        broker, topic("pop"), group("pop"), MessageRequestMode.POP, 0, PATIENCE);
  }

  /** Waits until both consumers of a group have their share: else the first load is a rebalance. */
  private void shared(String kind) {
    long end = Noted.now() + 120_000;
    Map<String, Long> shares = new TreeMap<>();
    while (shares.size() < 2 || shares.values().stream().anyMatch(share -> !fits(kind, share))) {
      if (Noted.now() > end) {
        throw new IllegalStateException("queues of " + kind + " are not shared: " + shares);
      }
      Noted.sleep(100);
      for (DefaultMQPushConsumer consumer : consumers) {
        if (consumer.getConsumerGroup().equals(group(kind))) {
          shares.put(consumer.getInstanceName(), KindConsumers.share(consumer, topic(kind)));
        }
      }
    }
  }

  private static boolean fits(String kind, long share) {
    // All poppers share all queues.
    return kind.equals("pop") ? share > 0 : share == QUEUES / 2;
  }
}
