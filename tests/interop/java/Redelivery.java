import java.lang.reflect.Method;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.exception.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;

/** Messages that come later or again: delay levels, timers, retries, dead letters, transactions. */
final class Redelivery extends Checks {
  static void delayLevel(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    Map<String, Long> came = arrivals(c, p);
    Map<String, Long> sent = new ConcurrentHashMap<>();
    for (int lv : new int[] {1, 2, 3}) {
      Message x = m(c.topic(), "A", "k", "L" + lv);
      x.setDelayTimeLevel(lv);
      sent.put("L" + lv, System.currentTimeMillis());
      SendResult r = p.send(x);
      eq(r.getSendStatus(), SendStatus.SEND_OK, "status");
    }
    await(40, "3 delayed", () -> came.keySet().containsAll(sent.keySet()));
    late(came, sent, "L1", 900, 8000);
    late(came, sent, "L2", 4900, 12000);
    late(came, sent, "L3", 9900, 17000);
  }

  static void timerArbitraryDelay(Scene c) throws Exception {
    Message probe = m(c.topic(), "A", "k", "x");
    call(probe, "setDelayTimeMs", 1L);
    DefaultMQProducer p = c.producer();
    Map<String, Long> came = arrivals(c, p);
    Map<String, Long> sent = new ConcurrentHashMap<>();
    Message a = m(c.topic(), "A", "k", "ms");
    call(a, "setDelayTimeMs", 3000L);
    Message b = m(c.topic(), "A", "k", "sec");
    call(b, "setDelayTimeSec", 5L);
    Message d = m(c.topic(), "A", "k", "at");
    call(d, "setDeliverTimeMs", System.currentTimeMillis() + 7000L);
    for (Message x : List.of(a, b, d)) {
      sent.put(s(x), System.currentTimeMillis());
      eq(p.send(x).getSendStatus(), SendStatus.SEND_OK, "status");
    }
    await(40, "3 timers", () -> came.keySet().containsAll(sent.keySet()));
    late(came, sent, "ms", 2000, 8000);
    late(came, sent, "sec", 4000, 10000);
    late(came, sent, "at", 6000, 12000);
  }

  /**
   * Notes when each message of tag A comes, by a consumer that is at work when this returns. A client
   * drops the heartbeat that tells of its new queues where another one is under way, more often the
   * more brokers there are, and is refused (25) until its next one, up to 30 s later.
   */
  static Map<String, Long> arrivals(Scene c, DefaultMQProducer p) throws Exception {
    Map<String, Long> came = new ConcurrentHashMap<>();
    p.send(m(c.topic(), "A", "k", "warm"));
    c.push(
        "c",
        c.topic(),
        "A",
        k ->
            k.registerMessageListener(
                (MessageListenerConcurrently)
                    (ms, x) -> {
                      for (MessageExt e : ms) came.put(s(e), System.currentTimeMillis());
                      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    }));
    await(60, "the first message", () -> came.containsKey("warm"));
    return came;
  }

  /** How long after it was sent a message came. */
  static void late(
      Map<String, Long> came, Map<String, Long> sent, String body, long least, long most) {
    long took = came.get(body) - sent.get(body);
    check(took >= least && took < most, body + " came after " + took + " ms");
  }

  static void timerRecall(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "W", "k", "warm"));
    Message a = m(c.topic(), "A", "k", "recalled");
    call(a, "setDelayTimeMs", 6000L);
    boolean has = false;
    for (Method z : SendResult.class.getMethods()) has |= z.getName().equals("getRecallHandle");
    if (!has) throw new Skip("client has no getRecallHandle");
    SendResult r = p.send(a);
    Object h = call(r, "getRecallHandle");
    check(h != null, "no recall handle returned");
    Object id = call(p, "recallMessage", c.topic(), h);
    check(id != null, "no id from recall");
    List<MessageExt> got = new CopyOnWriteArrayList<>();
    c.collect("c", c.topic(), "A", got);
    Thread.sleep(12000);
    eq(got.size(), 0, "delivered after recall");
  }

  static void retry(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "A", "k", "r"));
    List<Integer> times = new CopyOnWriteArrayList<>();
    Set<String> topics = ConcurrentHashMap.newKeySet();
    c.push(
        "c",
        c.topic(),
        "*",
        k ->
            k.registerMessageListener(
                (MessageListenerConcurrently)
                    (ms, x) -> {
                      for (MessageExt e : ms) {
                        times.add(e.getReconsumeTimes());
                        topics.add(e.getTopic());
                      }
                      x.setDelayLevelWhenNextConsume(1);
                      return times.size() < 3
                          ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                          : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    }));
    await(60, "3 deliveries " + times, () -> times.size() >= 3);
    eq(new ArrayList<>(times).subList(0, 3), List.of(0, 1, 2), "reconsumeTimes");
    eq(topics, Set.of(c.topic()), "topic restored on retry");
  }

  static void dlq(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "A", "dk", "dead"));
    AtomicInteger n = new AtomicInteger();
    DefaultMQPushConsumer k =
        c.push(
            "c",
            c.topic(),
            "*",
            z -> {
              z.setMaxReconsumeTimes(1);
              z.registerMessageListener(
                  (MessageListenerConcurrently)
                      (ms, x) -> {
                        n.addAndGet(ms.size());
                        x.setDelayLevelWhenNextConsume(1);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                      });
            });
    await(60, "2 deliveries", () -> n.get() >= 2);
    String dlq = "%DLQ%" + k.getConsumerGroup();
    AtomicReference<MessageExt> d = new AtomicReference<>();
    DefaultMQPullConsumer q = new DefaultMQPullConsumer(c.group("dlqreader"));
    q.setNamesrvAddr(NS);
    q.setInstanceName("dq" + SEQ.incrementAndGet());
    q.start();
    c.closers.add(q::shutdown);
    await(
        45,
        "message in " + dlq,
        () -> {
          try {
            PullResult r = q.pull(new MessageQueue(dlq, brokerName(p, c.topic()), 0), "*", 0, 8);
            if (r.getPullStatus() == PullStatus.FOUND) {
              d.set(r.getMsgFoundList().get(0));
              return true;
            }
          } catch (Exception e) {
          }
          return false;
        });
    eq(s(d.get()), "dead", "body");
    eq(
        d.get().getProperty("DLQ_ORIGIN_TOPIC") == null
            ? d.get().getProperty("RETRY_TOPIC")
            : d.get().getProperty("DLQ_ORIGIN_TOPIC"),
        c.topic(),
        "origin topic");
  }

  static void transaction(Scene c) throws Exception {
    Map<String, Integer> checks = new ConcurrentHashMap<>();
    TransactionMQProducer p = new TransactionMQProducer(c.group("tx"));
    p.setTransactionListener(
        new TransactionListener() {
          public LocalTransactionState executeLocalTransaction(Message x, Object a) {
            return s(x).startsWith("commit")
                ? LocalTransactionState.COMMIT_MESSAGE
                : s(x).startsWith("rollback")
                    ? LocalTransactionState.ROLLBACK_MESSAGE
                    : LocalTransactionState.UNKNOW;
          }

          public LocalTransactionState checkLocalTransaction(MessageExt x) {
            checks.merge(s(x), 1, Integer::sum);
            return s(x).equals("unknown-commit")
                ? LocalTransactionState.COMMIT_MESSAGE
                : LocalTransactionState.ROLLBACK_MESSAGE;
          }
        });
    c.start(p, z -> {});
    List<MessageExt> got = new CopyOnWriteArrayList<>();
    p.send(m(c.topic(), "W", "k", "warm"));
    c.collect("c", c.topic(), "A", got);
    for (String b :
        List.of("commit1", "rollback1", "commit2", "unknown-commit", "unknown-rollback")) {
      TransactionSendResult r = p.sendMessageInTransaction(m(c.topic(), "A", b, b), null);
      eq(r.getSendStatus(), SendStatus.SEND_OK, "half " + b);
      check(r.getTransactionId() != null, "txid");
    }
    Supplier<Set<String>> bs =
        () -> {
          Set<String> z = new TreeSet<>();
          for (MessageExt e : got) z.add(s(e));
          return z;
        };
    await(
        75,
        "commit+checked msgs, have " + bs.get(),
        () -> bs.get().size() >= 3 && checks.containsKey("unknown-rollback"));
    Thread.sleep(1000);
    eq(bs.get(), new TreeSet<>(List.of("commit1", "commit2", "unknown-commit")), "visible");
  }
}
