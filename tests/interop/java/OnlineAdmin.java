// The admin interface of rocketmq-tools on consumers that are online: the broker passes these
// requests on to the client.
// env: NAMESRV_ADDR, BROKER_ADDR, LEFT_OUT (names of cases). Ends with "N passed, N failed".
import java.util.*;
import java.util.concurrent.*;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.protocol.admin.*;
import org.apache.rocketmq.remoting.protocol.body.*;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

public class OnlineAdmin {
  static final String NAME_SERVER = System.getenv("NAMESRV_ADDR");
  static final String RUN = Long.toString(System.currentTimeMillis() % 100_000_000L, 36);
  static final int COUNT = 20;

  interface Case {
    void run(Scene scene) throws Exception;
  }

  /** A topic with COUNT messages, all of them consumed once by a consumer that stays online. */
  static class Scene implements AutoCloseable {
    final String topic;
    final String group;
    final List<MessageExt> got = new CopyOnWriteArrayList<>();
    final DefaultMQAdminExt admin = new DefaultMQAdminExt(20_000);
    final DefaultMQProducer producer;
    final DefaultMQPushConsumer consumer;

    Scene(String name) throws Exception {
      topic = "oa_" + name + "_" + RUN;
      group = "oag_" + name + "_" + RUN;
      admin.setNamesrvAddr(NAME_SERVER);
      admin.setInstanceName("admin_" + name);
      admin.start();
      producer = new DefaultMQProducer("oap_" + name + "_" + RUN);
      producer.setNamesrvAddr(NAME_SERVER);
      producer.setInstanceName("producer_" + name);
      producer.start();
      for (int i = 0; i < COUNT; i++) {
        producer.send(new Message(topic, "A", "k" + i, ("b" + i).getBytes()));
      }
      consumer = new DefaultMQPushConsumer(group);
      consumer.setNamesrvAddr(NAME_SERVER);
      consumer.setInstanceName("consumer_" + name);
      consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
      consumer.subscribe(topic, "*");
      consumer.registerMessageListener(
          (MessageListenerConcurrently)
              (messages, context) -> {
                got.addAll(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
              });
      consumer.start();
      await(40, COUNT + " messages", () -> got.size() >= COUNT);
    }

    String clientId() {
      return consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
    }

    @Override
    public void close() {
      consumer.shutdown();
      producer.shutdown();
      admin.shutdown();
    }
  }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static void await(int seconds, String what, BooleanSupplier holds) throws Exception {
    long end = System.nanoTime() + seconds * 1_000_000_000L;
    while (!holds.getAsBoolean()) {
      check(System.nanoTime() < end, "timed out waiting for " + what);
      Thread.sleep(20);
    }
  }

  static final Map<String, Case> CASES = new LinkedHashMap<>();

  static {
    CASES.put(
        "reset_offset_online",
        scene -> {
          Map<MessageQueue, Long> reset =
              scene.admin.resetOffsetByTimestamp(scene.topic, scene.group, 0, true);
          check(reset.size() == 4, "queues reset: " + reset);
          check(reset.values().stream().allMatch(offset -> offset == 0), "reset to: " + reset);
          await(60, "all messages again", () -> scene.got.size() >= 2 * COUNT);
        });
    CASES.put(
        "reset_offset_to_time",
        scene -> {
          Thread.sleep(1500);
          long middle = System.currentTimeMillis();
          Thread.sleep(1500);
          for (int i = 0; i < 5; i++) {
            scene.producer.send(new Message(scene.topic, "A", "k", ("late" + i).getBytes()));
          }
          await(40, "5 more", () -> scene.got.size() >= COUNT + 5);
          scene.admin.resetOffsetByTimestamp(scene.topic, scene.group, middle, true);
          await(60, "the 5 late ones again", () -> scene.got.size() >= COUNT + 10);
          Thread.sleep(1000);
          check(scene.got.size() == COUNT + 10, "got " + scene.got.size());
        });
    CASES.put(
        "consumer_connection",
        scene -> {
          ConsumerConnection connection = scene.admin.examineConsumerConnectionInfo(scene.group);
          check(connection.getConnectionSet().size() == 1, "connections");
          Connection only = connection.getConnectionSet().iterator().next();
          check(only.getClientId().equals(scene.clientId()), "client " + only.getClientId());
          check(connection.getSubscriptionTable().containsKey(scene.topic), "subscription");
        });
    CASES.put(
        "producer_connection",
        scene -> {
          String group = scene.producer.getProducerGroup();
          await(
              60,
              "the producer's heartbeat",
              () -> {
                try {
                  return scene
                          .admin
                          .examineProducerConnectionInfo(group, scene.topic)
                          .getConnectionSet()
                          .size()
                      == 1;
                } catch (Exception offline) {
                  return false;
                }
              });
        });
    CASES.put(
        "consumer_running_info",
        scene -> {
          ConsumerRunningInfo info =
              scene.admin.getConsumerRunningInfo(scene.group, scene.clientId(), false);
          check(
              info.getSubscriptionSet().stream().anyMatch(s -> s.getTopic().equals(scene.topic)),
              "subscriptions " + info.getSubscriptionSet());
          long queues =
              info.getMqTable().keySet().stream()
                  .filter(queue -> queue.getTopic().equals(scene.topic))
                  .count();
          check(queues == 4, "queues " + queues);
        });
    CASES.put(
        "consume_message_directly",
        scene -> {
          MessageExt message = scene.got.get(0);
          ConsumeMessageDirectlyResult result =
              scene.admin.consumeMessageDirectly(
                  scene.group, scene.clientId(), scene.topic, message.getMsgId());
          check(result.getConsumeResult() == CMResult.CR_SUCCESS, "" + result);
          check(scene.got.size() == COUNT + 1, "got " + scene.got.size());
        });
    CASES.put(
        "consume_stats",
        scene ->
            await(
                60,
                "committed offsets and no difference",
                () -> {
                  try {
                    ConsumeStats stats = scene.admin.examineConsumeStats(scene.group, scene.topic);
                    long sum =
                        stats.getOffsetTable().values().stream()
                            .mapToLong(OffsetWrapper::getConsumerOffset)
                            .sum();
                    return sum == COUNT && stats.computeTotalDiff() == 0;
                  } catch (Exception notYet) {
                    return false;
                  }
                }));
  }

  public static void main(String[] args) throws Exception {
    Set<String> leftOut =
        Set.of(Optional.ofNullable(System.getenv("LEFT_OUT")).orElse("").split(","));
    int passed = 0;
    int failed = 0;
    for (Map.Entry<String, Case> entry : CASES.entrySet()) {
      String name = entry.getKey();
      if (leftOut.contains(name)) continue;
      if (args.length > 0 && Arrays.stream(args).noneMatch(name::contains)) continue;
      long start = System.currentTimeMillis();
      String outcome = "PASS";
      try (Scene scene = new Scene(name)) {
        entry.getValue().run(scene);
        passed++;
      } catch (Throwable error) {
        outcome = "FAIL: " + error;
        failed++;
      }
      System.out.printf("%-26s %6d ms  %s%n", name, System.currentTimeMillis() - start, outcome);
    }
    System.out.printf("%d passed, %d failed%n", passed, failed);
    System.exit(failed == 0 ? 0 : 1);
  }
}
