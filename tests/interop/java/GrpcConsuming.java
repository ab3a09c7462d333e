import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.rocketmq.client.apis.consumer.*;
import org.apache.rocketmq.client.apis.message.*;
import org.apache.rocketmq.client.apis.producer.*;

/** Simple and push consumers by gRPC. */
final class GrpcConsuming {
  static void receiveAndAck(GrpcScene c) throws Exception {
    SimpleConsumer consumer = c.simple(c.group, GrpcScene.NORMAL, GrpcScene.tagged(c.tag));
    Producer producer = c.producer(GrpcScene.NORMAL);
    // Beyond ASCII, as body and as property.
    String word = "\u65e5\u672c h\u00e9llo ";
    for (int i = 0; i < 20; i++) {
      producer.send(c.message(GrpcScene.NORMAL, word + i).addProperty("u", word).build());
    }
    Map<String, MessageView> got =
        GrpcScene.drain(consumer, 20, 60, GrpcScene.INVISIBLE, true);
    GrpcScene.eq(got.size(), 20, "messages");
    MessageView third = got.get(word + 3);
    GrpcScene.check(third != null, "bodies " + got.keySet());
    GrpcScene.eq(third.getProperties().get("u"), word, "property");
    GrpcScene.eq(third.getTag().get(), c.tag, "tag");
    GrpcScene.eq(List.copyOf(third.getKeys()), List.of("key-" + c.tag), "keys");
    GrpcScene.eq(third.getDeliveryAttempt(), 1, "attempt");
    GrpcScene.eq(third.getTopic(), GrpcScene.NORMAL, "topic");
    GrpcScene.eq(consumer.receive(32, GrpcScene.INVISIBLE).size(), 0, "messages after the acks");
  }

  static void redelivery(GrpcScene c) throws Exception {
    SimpleConsumer consumer = c.simple(c.group, GrpcScene.NORMAL, GrpcScene.tagged(c.tag));
    c.producer(GrpcScene.NORMAL).send(c.message(GrpcScene.NORMAL, "again").build());
    Duration invisible = Duration.ofSeconds(10);
    long before = System.nanoTime();
    GrpcScene.eq(GrpcScene.drain(consumer, 1, 60, invisible, false).size(), 1, "first");
    Map<String, MessageView> second = GrpcScene.drain(consumer, 1, 60, invisible, true);
    GrpcScene.eq(second.size(), 1, "second");
    GrpcScene.eq(second.get("again").getDeliveryAttempt(), 2, "attempt");
    GrpcScene.check(System.nanoTime() - before > 9_000_000_000L, "it came before its time");
  }

  static void changeInvisible(GrpcScene c) throws Exception {
    SimpleConsumer consumer = c.simple(c.group, GrpcScene.NORMAL, GrpcScene.tagged(c.tag));
    c.producer(GrpcScene.NORMAL).send(c.message(GrpcScene.NORMAL, "changed").build());
    Map<String, MessageView> first =
        GrpcScene.drain(consumer, 1, 60, Duration.ofSeconds(120), false);
    GrpcScene.eq(first.size(), 1, "first");
    long before = System.nanoTime();
    consumer.changeInvisibleDuration(first.get("changed"), Duration.ofSeconds(10));
    Map<String, MessageView> second =
        GrpcScene.drain(consumer, 1, 80, Duration.ofSeconds(10), true);
    double seconds = (System.nanoTime() - before) / 1e9;
    GrpcScene.eq(second.size(), 1, "second");
    GrpcScene.check(seconds > 6 && seconds < 80, "again after " + seconds + " s");
  }

  static void push(GrpcScene c) throws Exception {
    Set<String> got = ConcurrentHashMap.newKeySet();
    c.push(c.group, GrpcScene.NORMAL, message -> got.add(GrpcScene.text(message)));
    Producer producer = c.producer(GrpcScene.NORMAL);
    for (int i = 0; i < 100; i++) producer.send(c.message(GrpcScene.NORMAL, "b" + i).build());
    GrpcScene.await(60, () -> "100 messages, got " + got.size(), () -> got.size() == 100);
  }

  static void pushRetry(GrpcScene c) throws Exception {
    List<Integer> attempts = new CopyOnWriteArrayList<>();
    c.push(
        c.group,
        GrpcScene.NORMAL,
        message -> {
          attempts.add(message.getDeliveryAttempt());
          return attempts.size() > 1;
        });
    c.producer(GrpcScene.NORMAL).send(c.message(GrpcScene.NORMAL, "again").build());
    GrpcScene.await(100, () -> "2 attempts, got " + attempts, () -> attempts.size() >= 2);
    GrpcScene.eq(attempts, List.of(1, 2), "attempts");
  }

  /** A group with retryMaxTimes=1 has a message twice and then never again. */
  static void pushDeadLetters(GrpcScene c) throws Exception {
    AtomicInteger attempts = new AtomicInteger();
    c.push(
        GrpcScene.IMPATIENT_GROUP,
        GrpcScene.NORMAL,
        message -> {
          attempts.incrementAndGet();
          return false;
        });
    c.producer(GrpcScene.NORMAL).send(c.message(GrpcScene.NORMAL, "dead").build());
    GrpcScene.await(100, () -> "2 attempts, got " + attempts, () -> attempts.get() >= 2);
    Thread.sleep(15_000);
    GrpcScene.eq(attempts.get(), 2, "attempts");
  }

  static void tags(GrpcScene c) throws Exception {
    String either = "A" + c.tag + "||B" + c.tag;
    SimpleConsumer consumer = c.simple(c.group, GrpcScene.NORMAL, GrpcScene.tagged(either));
    Producer producer = c.producer(GrpcScene.NORMAL);
    for (String letter : List.of("A", "B", "C")) {
      for (int i = 0; i < 5; i++) {
        producer.send(GrpcScene.message(GrpcScene.NORMAL, letter + c.tag, letter + i).build());
      }
    }
    Set<String> got =
        GrpcScene.drain(consumer, 11, 15, GrpcScene.INVISIBLE, true).keySet();
    GrpcScene.eq(got.size(), 10, "messages");
    GrpcScene.check(got.stream().noneMatch(body -> body.startsWith("C")), "got " + got);
  }

  static void sql(GrpcScene c) throws Exception {
    FilterExpression filter =
        new FilterExpression(
            "run = '" + c.tag + "' AND a BETWEEN 3 AND 6", FilterExpressionType.SQL92);
    SimpleConsumer consumer = c.simple(c.group, GrpcScene.NORMAL, filter);
    Producer producer = c.producer(GrpcScene.NORMAL);
    for (int i = 0; i < 10; i++) {
      producer.send(
          c.message(GrpcScene.NORMAL, "q" + i)
              .addProperty("run", c.tag)
              .addProperty("a", "" + i)
              .build());
    }
    Set<String> got =
        GrpcScene.drain(consumer, 5, 15, GrpcScene.INVISIBLE, true).keySet();
    GrpcScene.eq(got, Set.of("q3", "q4", "q5", "q6"), "messages");
  }

  /** Messages of one group come in order, also where several are received at once. */
  static void fifo(GrpcScene c) throws Exception {
    SimpleConsumer consumer =
        c.simple(GrpcScene.ORDERLY_GROUP, GrpcScene.FIFO, GrpcScene.tagged(c.tag));
    Producer producer = c.producer(GrpcScene.FIFO);
    for (int i = 0; i < 10; i++) {
      for (String order : List.of("o1", "o2")) {
        Message message = c.message(GrpcScene.FIFO, order + ":" + i).setMessageGroup(order).build();
        producer.send(message);
      }
    }
    Map<String, List<String>> seen = new TreeMap<>();
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(90);
    int count = 0;
    while (count < 20 && System.nanoTime() < end) {
      for (MessageView message : consumer.receive(4, GrpcScene.INVISIBLE)) {
        String[] parts = GrpcScene.text(message).split(":");
        GrpcScene.eq(message.getMessageGroup().get(), parts[0], "group");
        seen.computeIfAbsent(parts[0], order -> new ArrayList<>()).add(parts[1]);
        consumer.ack(message);
        count++;
      }
    }
    List<String> inOrder = List.of("0", "1", "2", "3", "4", "5", "6", "7", "8", "9");
    GrpcScene.eq(seen, Map.of("o1", inOrder, "o2", inOrder), "order");
  }
}
