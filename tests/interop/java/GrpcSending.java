import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.apis.*;
import org.apache.rocketmq.client.apis.message.*;
import org.apache.rocketmq.client.apis.producer.*;

/** Producers by gRPC: plain messages, timers, transactions, and what must be refused. */
final class GrpcSending {
  static void syncAndAsync(GrpcScene c) throws Exception {
    Producer producer = c.producer(GrpcScene.NORMAL);
    SendReceipt receipt =
        producer.send(c.message(GrpcScene.NORMAL, "one").addProperty("a", "b").build());
    GrpcScene.eq(receipt.getMessageId().toString().length(), 34, "length of a message id");
    List<CompletableFuture<SendReceipt>> receipts = new ArrayList<>();
    for (int i = 0; i < 50; i++) {
      receipts.add(producer.sendAsync(c.message(GrpcScene.NORMAL, "async" + i).build()));
    }
    Set<String> ids = new HashSet<>();
    for (CompletableFuture<SendReceipt> each : receipts) {
      ids.add(each.get(20, TimeUnit.SECONDS).getMessageId().toString());
    }
    GrpcScene.eq(ids.size(), 50, "different ids");
  }

  static void delay(GrpcScene c) throws Exception {
    Map<String, Long> came = new ConcurrentHashMap<>();
    c.push(
        c.group,
        GrpcScene.DELAY,
        message -> came.putIfAbsent(GrpcScene.text(message), System.currentTimeMillis()) == null);
    Producer producer = c.producer(GrpcScene.DELAY);
    long due = System.currentTimeMillis() + 5000;
    producer.send(c.message(GrpcScene.DELAY, "later").setDeliveryTimestamp(due).build());
    GrpcScene.await(60, () -> "the message", () -> came.containsKey("later"));
    long early = due - came.get("later");
    GrpcScene.check(early <= 1000, "delivered " + early + " ms before its time");
  }

  static void recall(GrpcScene c) throws Exception {
    Set<String> came = ConcurrentHashMap.newKeySet();
    c.push(c.group, GrpcScene.DELAY, message -> came.add(GrpcScene.text(message)));
    Producer producer = c.producer(GrpcScene.DELAY);
    long now = System.currentTimeMillis();
    SendReceipt receipt =
        producer.send(c.message(GrpcScene.DELAY, "back").setDeliveryTimestamp(now + 8000).build());
    producer.send(c.message(GrpcScene.DELAY, "stays").setDeliveryTimestamp(now + 10000).build());
    String handle = receipt.getRecallHandle();
    GrpcScene.check(handle != null && !handle.isEmpty(), "no recall handle");
    RecallReceipt recalled = producer.recallMessage(GrpcScene.DELAY, handle);
    GrpcScene.eq(recalled.getMessageId(), receipt.getMessageId(), "id of what was recalled");
    GrpcScene.await(60, () -> "the one that stays", () -> came.contains("stays"));
    Thread.sleep(2000);
    GrpcScene.eq(came, Set.of("stays"), "delivered");
  }

  static void transaction(GrpcScene c) throws Exception {
    Set<String> came = ConcurrentHashMap.newKeySet();
    Set<String> checked = ConcurrentHashMap.newKeySet();
    c.push(c.group, GrpcScene.TRANSACTION, message -> came.add(GrpcScene.text(message)));
    TransactionChecker checker =
        message -> {
          checked.add(GrpcScene.text(message));
          return GrpcScene.text(message).equals("unknown-commit")
              ? TransactionResolution.COMMIT
              : TransactionResolution.ROLLBACK;
        };
    Producer producer =
        c.started(
            GrpcScene.PROVIDER
                .newProducerBuilder()
                .setTopics(GrpcScene.TRANSACTION)
                .setTransactionChecker(checker));
    for (String body : List.of("commit", "rollback", "unknown-commit", "unknown-rollback")) {
      Transaction transaction = producer.beginTransaction();
      producer.send(c.message(GrpcScene.TRANSACTION, body).build(), transaction);
      if (body.equals("commit")) transaction.commit();
      if (body.equals("rollback")) transaction.rollback();
    }
    GrpcScene.await(
        100,
        () -> "two commits and both checks, got " + came + ", checked " + checked,
        () -> came.size() >= 2 && checked.contains("unknown-rollback"));
    Thread.sleep(1000);
    GrpcScene.eq(came, Set.of("commit", "unknown-commit"), "visible");
  }

  static void wrongType(GrpcScene c) throws Exception {
    Producer producer = c.producer(GrpcScene.FIFO);
    try {
      producer.send(c.message(GrpcScene.FIFO, "of no group").build());
    } catch (ClientException | IllegalArgumentException refused) {
      return;
    }
    GrpcScene.check(false, "a message without a group was taken by a FIFO topic");
  }

  static void unknownTopic(GrpcScene c) throws Exception {
    String topic = "nowhere_" + GrpcScene.RUN;
    try {
      c.producer().send(c.message(topic, "lost").build());
    } catch (ClientException refused) {
      String text = refused.toString();
      GrpcScene.check(
          text.contains("40402") || text.contains("NotFound") || text.contains("No topic route"),
          text);
      return;
    }
    GrpcScene.check(false, "a topic that nobody made took a message");
  }
}
