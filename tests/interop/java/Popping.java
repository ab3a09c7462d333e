import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;
import java.util.stream.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;

/** POP: the broker shares queues among consumers, message by message. Clients have it from 5.0 on. */
final class Popping extends Checks {
  /** How long the broker waits for an ack before it gives a message again: the client's least. */
  static final long INVISIBLE_MS = 5000;

  /** Two consumers share all queues: each message comes to one of them. */
  static void popPush(Scene c) throws Exception {
    popShared(c, 8);
  }

  /** Each shares the queues of the next one only; what is acked does not come again later. */
  static void popAcked(Scene c) throws Exception {
    List<MessageExt> got = popShared(c, 1);
    Thread.sleep(2 * INVISIBLE_MS);
    eq(got.size(), 30, "deliveries");
  }

  static List<MessageExt> popShared(Scene c, int share) throws Exception {
    DefaultMQProducer p = c.producer();
    sendAll(p, c.topic(), 60);
    setMode(c, p, "POP", share);
    List<MessageExt> got = new CopyOnWriteArrayList<>();
    for (int i = 0; i < 2; i++) popper(c, "A", got::add);
    await(60, "30 messages of tag A", () -> bodies(got).size() == 30);
    check(bodies(got).stream().allMatch(body -> number(body) % 2 == 0), "tags " + bodies(got));
    for (MessageExt message : got) {
      check(message.getProperty("POP_CK") != null, "pulled: " + message);
      eq(message.getTopic(), c.topic(), "topic");
      eq(message.getReconsumeTimes(), 0, "reconsumeTimes");
    }
    return got;
  }

  /** What a listener refuses comes again, under its own topic, and counts its tries. */
  static void popRetry(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    sendAll(p, c.topic(), 4);
    setMode(c, p, "POP", 0);
    List<MessageExt> got = new CopyOnWriteArrayList<>();
    popper(
        c,
        "*",
        message -> {
          got.add(message);
          return !s(message).equals("b2") || message.getReconsumeTimes() > 0;
        });
    await(80, "5 deliveries", () -> got.size() >= 5);
    List<MessageExt> tries =
        got.stream().filter(message -> s(message).equals("b2")).collect(Collectors.toList());
    eq(tries.size(), 2, "tries of b2");
    eq(tries.get(1).getReconsumeTimes(), 1, "reconsumeTimes");
    eq(tries.get(1).getTopic(), c.topic(), "topic of what is tried again");
  }

  /** What a consumer took and never acked goes to another one. */
  static void popConsumerGone(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    sendAll(p, c.topic(), 12);
    setMode(c, p, "POP", 0);
    List<MessageExt> kept = new CopyOnWriteArrayList<>();
    CountDownLatch end = new CountDownLatch(1);
    c.closers.add(end::countDown);
    popper(
        c,
        "*",
        message -> {
          kept.add(message);
          return end.await(120, TimeUnit.SECONDS);
        });
    await(40, "the first messages", () -> !kept.isEmpty());
    List<MessageExt> got = new CopyOnWriteArrayList<>();
    popper(c, "*", got::add);
    await(80, "all messages at the second", () -> bodies(got).size() == 12);
  }

  /** A group goes from POP to PULL and back while messages come: none is missed. */
  static void popModeSwitch(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    sendAll(p, c.topic(), 8);
    setMode(c, p, "POP", 0);
    List<MessageExt> got = new CopyOnWriteArrayList<>();
    popper(c, "*", got::add);
    await(40, "8 popped", () -> bodies(got).size() == 8);
    check(got.stream().allMatch(message -> message.getProperty("POP_CK") != null), "popped");
    setMode(c, p, "PULL", 0);
    AtomicInteger next = new AtomicInteger(8);
    BooleanSupplier pulled =
        () -> {
          try {
            p.send(m(c.topic(), "A", "k", "b" + next.getAndIncrement()));
            Thread.sleep(500);
          } catch (Exception e) {
            return false;
          }
          return got.stream().anyMatch(message -> message.getProperty("POP_CK") == null);
        };
    await(80, "a message that is pulled", pulled);
    await(60, "all messages", () -> bodies(got).size() == next.get());
  }

  interface Taker {
    boolean take(MessageExt message) throws Exception;
  }

  /** A consumer that leaves the sharing of queues to the broker. */
  static void popper(Scene c, String tags, Taker taker) throws Exception {
    c.push(
        "c",
        c.topic(),
        tags,
        k -> {
          ask(k, "setClientRebalance", false);
          ask(k, "setPopInvisibleTime", INVISIBLE_MS);
          k.registerMessageListener(
              (MessageListenerConcurrently)
                  (ms, x) -> {
                    boolean done = true;
                    try {
                      for (MessageExt message : ms) done &= taker.take(message);
                    } catch (Exception e) {
                      done = false;
                    }
                    return done
                        ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                        : ConsumeConcurrentlyStatus.RECONSUME_LATER;
                  });
        });
  }

  /** What mqadmin's updateSubGroup and setConsumeMode do, by the client's own calls. */
  static void setMode(Scene c, DefaultMQProducer p, String mode, int share) throws Exception {
    Object instance = call(p.getDefaultMQProducerImpl(), "getMqClientFactory");
    Object api = call(instance, "getMQClientAPIImpl");
    String broker =
        (String) call(instance, "findBrokerAddressInPublish", brokerName(p, c.topic()));
    Object group = named("org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig")
        .getConstructor()
        .newInstance();
    call(group, "setGroupName", c.group("c"));
    call(api, "createSubscriptionGroup", broker, group, 10_000L);
    Object wanted = null;
    Class<?> modes = named("org.apache.rocketmq.common.message.MessageRequestMode");
    for (Object each : modes.getEnumConstants()) if (each.toString().equals(mode)) wanted = each;
    call(api, "setMessageRequestMode", broker, c.topic(), c.group("c"), wanted, share, 10_000L);
  }

  static Class<?> named(String name) {
    try {
      return Class.forName(name);
    } catch (ClassNotFoundException old) {
      throw new Skip("client has no " + name.substring(name.lastIndexOf('.') + 1));
    }
  }

  static void ask(Object object, String name, Object argument) {
    try {
      call(object, name, argument);
    } catch (Exception e) {
      throw e instanceof Skip ? (Skip) e : new IllegalStateException(e);
    }
  }

  /** Messages `b0`, `b1` and so on, by turns with tag A and B. */
  static void sendAll(DefaultMQProducer p, String topic, int count) throws Exception {
    for (int i = 0; i < count; i++) {
      SendResult sent = p.send(m(topic, i % 2 == 0 ? "A" : "B", "k" + i, "b" + i));
      eq(sent.getSendStatus(), SendStatus.SEND_OK, "status");
    }
  }

  static Set<String> bodies(Collection<MessageExt> messages) {
    return messages.stream().map(Checks::s).collect(Collectors.toSet());
  }

  static int number(String body) {
    return Integer.parseInt(body.substring(1));
  }
}
