import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.exception.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

/** Consuming by push and pull, alone and in groups. */
final class Consuming extends Checks {
  static void pushConcurrent(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    int n = 500;
    for (int i = 0; i < n; i++) {
      Message x = m(c.topic(), "A", "k" + i, "héllo 消息 " + i);
      x.putUserProperty("n", "" + i);
      x.putUserProperty("uni", "日本");
      p.send(x);
    }
    Map<String, MessageExt> got = new ConcurrentHashMap<>();
    AtomicInteger dup = new AtomicInteger();
    c.push(
        "c",
        c.topic(),
        "*",
        k ->
            k.registerMessageListener(
                (MessageListenerConcurrently)
                    (ms, x) -> {
                      for (MessageExt e : ms) if (got.put(s(e), e) != null) dup.incrementAndGet();
                      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    }));
    await(40, n + " msgs", () -> got.size() >= n);
    MessageExt e = got.get("héllo 消息 7");
    eq(e.getUserProperty("uni"), "日本", "prop");
    eq(e.getKeys(), "k7", "keys");
    eq(e.getTags(), "A", "tags");
    check(
        e.getBornHost() != null
            && e.getStoreHost() != null
            && e.getStoreTimestamp() > 0
            && e.getQueueOffset() >= 0
            && e.getCommitLogOffset() >= 0,
        "ext fields");
    eq(dup.get(), 0, "duplicates");
  }

  static void longPollLatency(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "A", "k", "warm"));
    Map<String, Long> at = new ConcurrentHashMap<>();
    c.push(
        "c",
        c.topic(),
        "*",
        k ->
            k.registerMessageListener(
                (MessageListenerConcurrently)
                    (ms, x) -> {
                      for (MessageExt e : ms) at.put(s(e), System.nanoTime());
                      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    }));
    await(40, "warm", () -> at.containsKey("warm"));
    Thread.sleep(3000);
    long worst = 0;
    for (int i = 0; i < 8; i++) {
      long t = System.nanoTime();
      String b = "l" + i;
      p.send(m(c.topic(), "A", "k", b));
      await(20, b, () -> at.containsKey(b));
      worst = Math.max(worst, (at.get(b) - t) / 1_000_000);
      Thread.sleep(100);
    }
    check(worst < 2000, "worst end-to-end " + worst + " ms");
  }

  static void tagFilter(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    for (int i = 0; i < 30; i++) p.send(m(c.topic(), "T" + i % 3, "k", "b" + i));
    List<MessageExt> a = new CopyOnWriteArrayList<>(), ab = new CopyOnWriteArrayList<>();
    c.collect("a", c.topic(), "T0", a);
    c.collect("ab", c.topic(), "T0 || T1", ab);
    await(40, "10/20", () -> a.size() >= 10 && ab.size() >= 20);
    Thread.sleep(500);
    eq(a.size(), 10, "T0");
    eq(ab.size(), 20, "T0||T1");
  }

  static void sqlFilter(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    for (int i = 0; i < 30; i++) {
      Message x = m(c.topic(), i % 2 == 0 ? "E" : "O", "k", "b" + i);
      x.putUserProperty("a", "" + i);
      x.putUserProperty("c", i < 15 ? "low" : "high");
      p.send(x);
    }
    String[] ex = {
      "a BETWEEN 5 AND 9",
      "(TAGS IS NOT NULL AND TAGS IN ('E')) AND a > 20",
      "c = 'high' AND NOT (a >= 20)",
      "a IS NOT NULL AND (a < 3 OR a = 29)"
    };
    int[] want = {5, 4, 5, 4};
    List<List<MessageExt>> outs = new ArrayList<>();
    for (int i = 0; i < ex.length; i++) {
      List<MessageExt> o = new CopyOnWriteArrayList<>();
      outs.add(o);
      String e = ex[i];
      c.push(
          "s" + i,
          null,
          null,
          k -> {
            try {
              k.subscribe(c.topic(), MessageSelector.bySql(e));
            } catch (MQClientException z) {
              throw new RuntimeException(z);
            }
            k.registerMessageListener(
                (MessageListenerConcurrently)
                    (ms, x) -> {
                      o.addAll(ms);
                      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    });
          });
    }
    await(
        50,
        "all sql matches",
        () -> {
          for (int i = 0; i < want.length; i++) if (outs.get(i).size() < want[i]) return false;
          return true;
        });
    Thread.sleep(500);
    for (int i = 0; i < want.length; i++) eq(outs.get(i).size(), want[i], ex[i]);
  }

  static void sqlFilterBadExpr(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "A", "k", "x"));
    String msg = null;
    try {
      c.push(
          "c",
          null,
          null,
          k -> {
            try {
              k.subscribe(c.topic(), MessageSelector.bySql("a >< 3 AND"));
            } catch (MQClientException z) {
              throw new RuntimeException(z);
            }
            k.registerMessageListener(
                (MessageListenerConcurrently) (ms, x) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
          });
    } catch (Exception e) {
      msg = "" + e;
    }
    check(
        msg != null && msg.contains("CODE: 23"),
        "expected CODE 23 (SUBSCRIPTION_PARSE_FAILED) at start, got " + msg);
  }

  static void ordered(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "W", "k", "warm"));
    int ids = 10, per = 10;
    for (int s = 0; s < per; s++)
      for (int o = 0; o < ids; o++)
        p.send(
            m(c.topic(), "A", "o" + o, o + ":" + s),
            (qs, x, a) -> qs.get((Integer) a % qs.size()),
            o);
    Map<String, List<Integer>> seen = new ConcurrentHashMap<>();
    AtomicInteger n = new AtomicInteger();
    AtomicInteger susp = new AtomicInteger();
    for (int i = 0; i < 2; i++)
      c.push(
          "c",
          c.topic(),
          "A",
          k ->
              k.registerMessageListener(
                  (MessageListenerOrderly)
                      (ms, x) -> {
                        for (MessageExt e : ms) {
                          if (s(e).equals("3:4") && susp.getAndIncrement() == 0)
                            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                          String[] f = s(e).split(":");
                          seen.computeIfAbsent(
                                  f[0], z -> Collections.synchronizedList(new ArrayList<>()))
                              .add(Integer.parseInt(f[1]));
                          n.incrementAndGet();
                        }
                        return ConsumeOrderlyStatus.SUCCESS;
                      }));
    await(60, "100 msgs", () -> n.get() >= ids * per);
    check(susp.get() >= 2, "suspended message redelivered");
    for (List<Integer> l : seen.values()) {
      int last = -1;
      for (int v : new LinkedHashSet<>(l)) {
        check(v > last, "order broken " + l);
        last = v;
      }
      eq(new TreeSet<>(l).size(), per, "all steps");
    }
  }

  static void broadcasting(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "W", "k", "warm"));
    List<List<MessageExt>> out = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      List<MessageExt> o = new CopyOnWriteArrayList<>();
      out.add(o);
      c.push(
          "bc",
          c.topic(),
          "*",
          k -> {
            broadcasting(k);
            k.registerMessageListener(
                (MessageListenerConcurrently)
                    (ms, x) -> {
                      o.addAll(ms);
                      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    });
          });
    }
    await(40, "warm everywhere", () -> out.stream().allMatch(o -> o.size() >= 1));
    for (int i = 0; i < 20; i++) p.send(m(c.topic(), "A", "k", "b" + i));
    await(30, "21 in each of 3", () -> out.stream().allMatch(o -> o.size() >= 21));
    for (List<MessageExt> o : out) eq(o.size(), 21, "copies");
  }

  static void clusterRebalance(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "W", "k", "warm"));
    AtomicInteger[] n = {new AtomicInteger(), new AtomicInteger()};
    Set<String> all = ConcurrentHashMap.newKeySet();
    List<DefaultMQPushConsumer> ks = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      int j = i;
      ks.add(
          c.push(
              "cl",
              c.topic(),
              "*",
              k ->
                  k.registerMessageListener(
                      (MessageListenerConcurrently)
                          (ms, x) -> {
                            for (MessageExt e : ms) {
                              n[j].incrementAndGet();
                              all.add(s(e));
                            }
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                          })));
    }
    Function<DefaultMQPushConsumer, Integer> own =
        k ->
            k
                .getDefaultMQPushConsumerImpl()
                .getRebalanceImpl()
                .getProcessQueueTable()
                .entrySet()
                .stream()
                .mapToInt(e -> e.getKey().getTopic().equals(c.topic()) ? 1 : 0)
                .sum();
    await(60, "2+2 split", () -> own.apply(ks.get(0)) == 2 && own.apply(ks.get(1)) == 2);
    n[0].set(0);
    n[1].set(0);
    for (int i = 0; i < 40; i++) p.send(m(c.topic(), "A", "k", "b" + i));
    try {
      await(40, "41 bodies", () -> all.size() >= 41);
    } catch (AssertionError z) {
      Set<String> miss = new TreeSet<>();
      for (int i = 0; i < 40; i++) miss.add("b" + i);
      miss.add("warm");
      miss.removeAll(all);
      throw new AssertionError("never consumed: " + miss + " split " + n[0] + "/" + n[1]);
    }
    check(n[0].get() >= 15 && n[1].get() >= 15, "split " + n[0] + "/" + n[1]);
    ks.get(0).shutdown();
    await(40, "takeover by survivor", () -> own.apply(ks.get(1)) == 4);
  }

  static void pullConsumer(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    for (int i = 0; i < 40; i++) p.send(m(c.topic(), i % 2 == 0 ? "E" : "O", "k", "b" + i));
    awaitStored(p, c.topic(), 40);
    DefaultMQPullConsumer k = new DefaultMQPullConsumer(c.group("pull"));
    k.setNamesrvAddr(NS);
    k.setInstanceName("pl" + SEQ.incrementAndGet());
    k.start();
    c.closers.add(k::shutdown);
    int n = 0, e = 0;
    Set<MessageQueue> qs = k.fetchSubscribeMessageQueues(c.topic());
    eq(qs.size(), 4, "queues");
    for (MessageQueue q : qs) {
      long off = k.minOffset(q);
      for (; ; ) {
        PullResult r = k.pull(q, "*", off, 16);
        if (r.getPullStatus() == PullStatus.FOUND) n += r.getMsgFoundList().size();
        off = r.getNextBeginOffset();
        if (r.getPullStatus() == PullStatus.NO_NEW_MSG || off >= r.getMaxOffset()) break;
      }
      off = 0;
      for (; ; ) {
        PullResult r = k.pull(q, "E", off, 16);
        if (r.getPullStatus() == PullStatus.FOUND) e += r.getMsgFoundList().size();
        off = r.getNextBeginOffset();
        if (off >= k.maxOffset(q)) break;
      }
      k.updateConsumeOffset(q, off);
      k.getOffsetStore().persistAll(new HashSet<>(Set.of(q)));
      long o = off;
      await(
          5,
          "committed offset " + off,
          () -> {
            try {
              return k.fetchConsumeOffset(q, true) == o;
            } catch (Exception z) {
              return false;
            }
          });
    }
    eq(n, 40, "pulled");
    eq(e, 20, "pulled tag E");
    MessageQueue q = qs.iterator().next();
    eq(k.pull(q, "*", 100000, 1).getPullStatus(), PullStatus.OFFSET_ILLEGAL, "pull beyond max");
  }

  static void litePullSubscribe(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    for (int i = 0; i < 40; i++) p.send(m(c.topic(), "A", "k", "b" + i));
    DefaultLitePullConsumer k = new DefaultLitePullConsumer(c.group("lp"));
    k.setNamesrvAddr(NS);
    k.setInstanceName("lp" + SEQ.incrementAndGet());
    k.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    k.setAutoCommit(true);
    k.subscribe(c.topic(), "*");
    k.start();
    c.closers.add(k::shutdown);
    Set<String> got = new HashSet<>();
    long end = System.currentTimeMillis() + 30000;
    while (got.size() < 40 && System.currentTimeMillis() < end)
      for (MessageExt x : k.poll(1000)) got.add(s(x));
    eq(got.size(), 40, "polled");
  }

  static List<MessageExt> polled(DefaultLitePullConsumer k, int count) {
    List<MessageExt> got = new ArrayList<>();
    long end = System.currentTimeMillis() + 30000;
    while (got.size() < count && System.currentTimeMillis() < end) got.addAll(k.poll(1000));
    return got;
  }

  static void litePullAssignSeek(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    for (int i = 0; i < 40; i++) p.send(m(c.topic(), "A", "k", "b" + i));
    awaitStored(p, c.topic(), 40);
    DefaultLitePullConsumer k = new DefaultLitePullConsumer(c.group("lp"));
    k.setNamesrvAddr(NS);
    k.setInstanceName("la" + SEQ.incrementAndGet());
    k.setAutoCommit(false);
    k.start();
    c.closers.add(k::shutdown);
    List<MessageQueue> qs = new ArrayList<>(k.fetchMessageQueues(c.topic()));
    k.assign(qs);
    // What a pull brings that is under way when the client seeks may still be delivered; so seek
    // from the end, where the pulls that are under way wait for messages.
    eq(polled(k, 40).size(), 40, "from the first offset");
    for (MessageQueue q : qs) k.seek(q, 5);
    List<MessageExt> got = polled(k, 20);
    eq(got.size(), 20, "after seek 5 of 10 per queue");
    for (MessageExt x : got) check(x.getQueueOffset() >= 5, "offset < seek");
    k.commitSync();
    long ts = k.offsetForTimestamp(qs.get(0), System.currentTimeMillis() + 3600_000);
    check(ts >= 0, "offsetForTimestamp " + ts);
  }
}
