// Interop suite for the Java remoting client (compiles against rocketmq-client 4.9.x and 5.x).
// env: NAMESRV_ADDR (default 127.0.0.1:9876), PAR (parallel cases, default 3), CASE_TIMEOUT_S
// (default 90)
// args: case-name substrings to run (none = all). Prints PASS/FAIL/SKIP per case, then "N passed, N
// failed, N skipped".
// The broker under test needs: autoCreateTopicEnable, autoCreateSubscriptionGroup,
// enablePropertyFilter, traceTopicEnable.
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.exception.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

public class Suite {
  static final String NS =
      Optional.ofNullable(System.getenv("NAMESRV_ADDR")).orElse("127.0.0.1:9876");
  static final String RUN = Long.toString(System.currentTimeMillis() % 100_000_000L, 36);
  static final AtomicInteger SEQ = new AtomicInteger();

  static class Skip extends RuntimeException {
    Skip(String m) {
      super(m);
    }
  }

  interface Body {
    void run(Ctx c) throws Exception;
  }

  /** Per-case context: unique topic/group names, and everything started is shut down at the end. */
  static class Ctx {
    final String name;
    final List<Runnable> closers = new CopyOnWriteArrayList<>();

    Ctx(String n) {
      name = n;
    }

    String topic() {
      return "it_" + name + "_" + RUN;
    }

    String group(String s) {
      return "g_" + name + "_" + s + "_" + RUN;
    }

    DefaultMQProducer producer() throws Exception {
      return producer(p -> {});
    }

    DefaultMQProducer producer(Consumer<DefaultMQProducer> f) throws Exception {
      DefaultMQProducer p = new DefaultMQProducer(group("p"));
      start(p, f);
      return p;
    }

    void start(DefaultMQProducer p, Consumer<DefaultMQProducer> f) throws Exception {
      p.setNamesrvAddr(NS);
      p.setInstanceName("p" + SEQ.incrementAndGet());
      p.setSendMsgTimeout(10000);
      f.accept(p);
      p.start();
      closers.add(p::shutdown);
    }

    DefaultMQPushConsumer push(
        String grp, String topic, String tags, Consumer<DefaultMQPushConsumer> f) throws Exception {
      DefaultMQPushConsumer c = new DefaultMQPushConsumer(group(grp));
      c.setNamesrvAddr(NS);
      c.setInstanceName("c" + SEQ.incrementAndGet());
      c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
      c.setConsumeThreadMin(4);
      c.setConsumeThreadMax(4);
      if (topic != null && tags != null) c.subscribe(topic, tags);
      f.accept(c);
      c.start();
      closers.add(c::shutdown);
      return c;
    }

    DefaultMQPushConsumer collect(String grp, String topic, String tags, Collection<MessageExt> out)
        throws Exception {
      return push(
          grp,
          topic,
          tags,
          c ->
              c.registerMessageListener(
                  (MessageListenerConcurrently)
                      (ms, x) -> {
                        out.addAll(ms);
                        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                      }));
    }
  }

  static Message m(String topic, String tag, String key, String body) {
    return new Message(topic, tag, key, body.getBytes(StandardCharsets.UTF_8));
  }

  static String s(Message m) {
    return new String(m.getBody(), StandardCharsets.UTF_8);
  }

  static void check(boolean b, String why) {
    if (!b) throw new AssertionError(why);
  }

  static void eq(Object a, Object b, String what) {
    if (!Objects.equals(a, b)) throw new AssertionError(what + ": expected " + b + " got " + a);
  }

  static void await(int sec, String what, BooleanSupplier p) throws Exception {
    long end = System.nanoTime() + sec * 1_000_000_000L;
    while (!p.getAsBoolean()) {
      if (System.nanoTime() > end) throw new AssertionError("timed out waiting for " + what);
      Thread.sleep(20);
    }
  }

  static Object call(Object o, String name, Object... args) throws Exception {
    outer:
    for (Method me : o.getClass().getMethods()) {
      if (!me.getName().equals(name) || me.getParameterCount() != args.length) continue;
      Class<?>[] pt = me.getParameterTypes();
      for (int i = 0; i < args.length; i++) {
        Class<?> t = pt[i];
        if (t == long.class) t = Long.class;
        if (t == int.class) t = Integer.class;
        if (t == boolean.class) t = Boolean.class;
        if (args[i] != null && !t.isInstance(args[i])) continue outer;
      }
      try {
        return me.invoke(o, args);
      } catch (java.lang.reflect.InvocationTargetException z) {
        throw z.getCause() instanceof Exception ? (Exception) z.getCause() : z;
      }
    }
    throw new Skip("client has no " + name);
  }

  static void broadcasting(DefaultMQPushConsumer c) {
    try { // MessageModel moved packages between 4.9 and 5.1
      Class<?> e = c.getMessageModel().getClass();
      for (Object k : e.getEnumConstants())
        if (k.toString().equals("BROADCASTING")) {
          DefaultMQPushConsumer.class.getMethod("setMessageModel", e).invoke(c, k);
          return;
        }
    } catch (Exception x) {
      throw new RuntimeException(x);
    }
    throw new IllegalStateException();
  }

  static long total(DefaultMQProducer p, String topic) throws Exception {
    long n = 0;
    for (MessageQueue q : p.fetchPublishMessageQueues(topic)) n += p.maxOffset(q) - p.minOffset(q);
    return n;
  }

  static final Map<String, Body> CASES = new LinkedHashMap<>();

  static {
    CASES.put(
        "send_sync",
        c -> {
          DefaultMQProducer p = c.producer();
          for (int i = 0; i < 10; i++) {
            SendResult r = p.send(m(c.topic(), "A", "k" + i, "b" + i));
            eq(r.getSendStatus(), SendStatus.SEND_OK, "status");
            check(
                r.getMsgId() != null
                    && (r.getMsgId().length() == 32
                        || r.getMsgId().length() == 56) /* 56 = client host has only IPv6 */,
                "msgId " + r.getMsgId());
            check(
                r.getOffsetMsgId() != null && r.getOffsetMsgId().length() == 32,
                "offsetMsgId " + r.getOffsetMsgId());
            check(r.getQueueOffset() >= 0, "queueOffset");
          }
          await(
              10,
              "10 stored",
              () -> {
                try {
                  return total(p, c.topic()) == 10;
                } catch (Exception e) {
                  return false;
                }
              });
        });
    CASES.put(
        "send_async",
        c -> {
          DefaultMQProducer p = c.producer();
          p.send(m(c.topic(), "A", "k", "warm"));
          int n = 200;
          CountDownLatch l = new CountDownLatch(n);
          AtomicInteger ok = new AtomicInteger();
          AtomicReference<Throwable> er = new AtomicReference<>();
          for (int i = 0; i < n; i++)
            p.send(
                m(c.topic(), "A", "k" + i, "b" + i),
                new SendCallback() {
                  public void onSuccess(SendResult r) {
                    if (r.getSendStatus() == SendStatus.SEND_OK) ok.incrementAndGet();
                    l.countDown();
                  }

                  public void onException(Throwable e) {
                    er.set(e);
                    l.countDown();
                  }
                });
          check(l.await(30, TimeUnit.SECONDS), "callbacks missing: " + l.getCount());
          eq(ok.get(), n, "ok (" + er.get() + ")");
        });
    CASES.put(
        "send_oneway",
        c -> {
          DefaultMQProducer p = c.producer();
          p.send(m(c.topic(), "A", "k", "warm"));
          for (int i = 0; i < 20; i++) p.sendOneway(m(c.topic(), "A", "k" + i, "b" + i));
          await(
              15,
              "21 stored",
              () -> {
                try {
                  return total(p, c.topic()) == 21;
                } catch (Exception e) {
                  return false;
                }
              });
        });
    CASES.put(
        "send_batch",
        c -> {
          DefaultMQProducer p = c.producer();
          List<Message> b = new ArrayList<>();
          for (int i = 0; i < 32; i++) b.add(m(c.topic(), "T" + i % 3, "key" + i, "batch" + i));
          SendResult r = p.send(b);
          eq(r.getSendStatus(), SendStatus.SEND_OK, "status");
          eq(r.getMsgId().split(",").length, 32, "msgIds");
          eq(r.getOffsetMsgId().split(",").length, 32, "offsetMsgIds");
          List<MessageExt> got = new CopyOnWriteArrayList<>();
          c.collect("c", c.topic(), "*", got);
          await(30, "32 msgs", () -> got.size() >= 32);
          Set<String> bodies = new TreeSet<>();
          for (MessageExt x : got) bodies.add(s(x) + x.getTags() + x.getKeys());
          eq(bodies.size(), 32, "distinct");
        });
    CASES.put(
        "send_queue_selector",
        c -> {
          DefaultMQProducer p = c.producer();
          p.send(m(c.topic(), "A", "k", "warm"));
          for (int i = 0; i < 8; i++) {
            SendResult r =
                p.send(
                    m(c.topic(), "A", "k", "x"),
                    (qs, msg, a) -> qs.get((Integer) a % qs.size()),
                    i);
            eq(r.getMessageQueue().getQueueId(), i % 4, "queue");
          }
        });
    CASES.put(
        "push_concurrent",
        c -> {
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
                            for (MessageExt e : ms)
                              if (got.put(s(e), e) != null) dup.incrementAndGet();
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
        });
    CASES.put(
        "long_poll_latency",
        c -> {
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
        });
    CASES.put(
        "tag_filter",
        c -> {
          DefaultMQProducer p = c.producer();
          for (int i = 0; i < 30; i++) p.send(m(c.topic(), "T" + i % 3, "k", "b" + i));
          List<MessageExt> a = new CopyOnWriteArrayList<>(), ab = new CopyOnWriteArrayList<>();
          c.collect("a", c.topic(), "T0", a);
          c.collect("ab", c.topic(), "T0 || T1", ab);
          await(40, "10/20", () -> a.size() >= 10 && ab.size() >= 20);
          Thread.sleep(500);
          eq(a.size(), 10, "T0");
          eq(ab.size(), 20, "T0||T1");
        });
    CASES.put(
        "sql_filter",
        c -> {
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
                for (int i = 0; i < want.length; i++)
                  if (outs.get(i).size() < want[i]) return false;
                return true;
              });
          Thread.sleep(500);
          for (int i = 0; i < want.length; i++) eq(outs.get(i).size(), want[i], ex[i]);
        });
    CASES.put(
        "sql_filter_bad_expr",
        c -> {
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
                      (MessageListenerConcurrently)
                          (ms, x) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
                });
          } catch (Exception e) {
            msg = "" + e;
          }
          check(
              msg != null && msg.contains("CODE: 23"),
              "expected CODE 23 (SUBSCRIPTION_PARSE_FAILED) at start, got " + msg);
        });
    CASES.put(
        "ordered",
        c -> {
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
        });
    CASES.put(
        "delay_level",
        c -> {
          DefaultMQProducer p = c.producer();
          p.send(m(c.topic(), "W", "k", "warm"));
          Map<String, Long> lat = new ConcurrentHashMap<>();
          Map<String, Long> sent = new ConcurrentHashMap<>();
          c.push(
              "c",
              c.topic(),
              "A",
              k ->
                  k.registerMessageListener(
                      (MessageListenerConcurrently)
                          (ms, x) -> {
                            for (MessageExt e : ms)
                              lat.put(s(e), System.currentTimeMillis() - sent.get(s(e)));
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                          }));
          for (int lv : new int[] {1, 2, 3}) {
            Message x = m(c.topic(), "A", "k", "L" + lv);
            x.setDelayTimeLevel(lv);
            sent.put("L" + lv, System.currentTimeMillis());
            SendResult r = p.send(x);
            eq(r.getSendStatus(), SendStatus.SEND_OK, "status");
          }
          await(40, "3 delayed", () -> lat.size() == 3);
          check(lat.get("L1") >= 900 && lat.get("L1") < 8000, "L1 " + lat);
          check(lat.get("L2") >= 4900 && lat.get("L2") < 12000, "L2 " + lat);
          check(lat.get("L3") >= 9900 && lat.get("L3") < 17000, "L3 " + lat);
        });
    CASES.put(
        "timer_arbitrary_delay",
        c -> {
          Message probe = m(c.topic(), "A", "k", "x");
          call(probe, "setDelayTimeMs", 1L);
          DefaultMQProducer p = c.producer();
          p.send(m(c.topic(), "W", "k", "warm"));
          Map<String, Long> lat = new ConcurrentHashMap<>(), sent = new ConcurrentHashMap<>();
          c.push(
              "c",
              c.topic(),
              "A",
              k ->
                  k.registerMessageListener(
                      (MessageListenerConcurrently)
                          (ms, x) -> {
                            for (MessageExt e : ms)
                              lat.put(s(e), System.currentTimeMillis() - sent.get(s(e)));
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                          }));
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
          await(40, "3 timers", () -> lat.size() == 3);
          check(lat.get("ms") >= 2000 && lat.get("ms") < 8000, "" + lat);
          check(lat.get("sec") >= 4000 && lat.get("sec") < 10000, "" + lat);
          check(lat.get("at") >= 6000 && lat.get("at") < 12000, "" + lat);
        });
    CASES.put(
        "timer_recall",
        c -> {
          DefaultMQProducer p = c.producer();
          p.send(m(c.topic(), "W", "k", "warm"));
          Message a = m(c.topic(), "A", "k", "recalled");
          call(a, "setDelayTimeMs", 6000L);
          boolean has = false;
          for (Method z : SendResult.class.getMethods())
            has |= z.getName().equals("getRecallHandle");
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
        });
    CASES.put(
        "transaction",
        c -> {
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
        });
    CASES.put(
        "pull_consumer",
        c -> {
          DefaultMQProducer p = c.producer();
          for (int i = 0; i < 40; i++) p.send(m(c.topic(), i % 2 == 0 ? "E" : "O", "k", "b" + i));
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
          eq(
              k.pull(q, "*", 100000, 1).getPullStatus(),
              PullStatus.OFFSET_ILLEGAL,
              "pull beyond max");
        });
    CASES.put(
        "lite_pull_subscribe",
        c -> {
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
        });
    CASES.put(
        "lite_pull_assign_seek",
        c -> {
          DefaultMQProducer p = c.producer();
          for (int i = 0; i < 40; i++) p.send(m(c.topic(), "A", "k", "b" + i));
          DefaultLitePullConsumer k = new DefaultLitePullConsumer(c.group("lp"));
          k.setNamesrvAddr(NS);
          k.setInstanceName("la" + SEQ.incrementAndGet());
          k.setAutoCommit(false);
          k.start();
          c.closers.add(k::shutdown);
          List<MessageQueue> qs = new ArrayList<>(k.fetchMessageQueues(c.topic()));
          k.assign(qs);
          for (MessageQueue q : qs) k.seek(q, 5);
          List<MessageExt> got = new ArrayList<>();
          long end = System.currentTimeMillis() + 30000;
          while (got.size() < 20 && System.currentTimeMillis() < end) got.addAll(k.poll(1000));
          eq(got.size(), 20, "after seek 5 of 10 per queue");
          for (MessageExt x : got) check(x.getQueueOffset() >= 5, "offset < seek");
          k.commitSync();
          long ts = k.offsetForTimestamp(qs.get(0), System.currentTimeMillis() + 3600_000);
          check(ts >= 0, "offsetForTimestamp " + ts);
        });
    CASES.put(
        "broadcasting",
        c -> {
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
        });
    CASES.put(
        "cluster_rebalance",
        c -> {
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
        });
    CASES.put(
        "retry",
        c -> {
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
        });
    CASES.put(
        "dlq",
        c -> {
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
                  PullResult r =
                      q.pull(new MessageQueue(dlq, brokerName(p, c.topic()), 0), "*", 0, 8);
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
        });
    CASES.put(
        "query_by_key",
        c -> {
          DefaultMQProducer p = c.producer();
          String key = "ORDER-" + RUN;
          SendResult r = null;
          for (int i = 0; i < 5; i++) r = p.send(m(c.topic(), "A", key + " other" + i, "b" + i));
          SendResult last = r;
          await(
              20,
              "5 by key",
              () -> {
                try {
                  QueryResult q = p.queryMessage(c.topic(), key, 32, 0, Long.MAX_VALUE);
                  return q.getMessageList().size() == 5;
                } catch (Exception e) {
                  return false;
                }
              });
          eq(
              p.queryMessage(c.topic(), "other3", 32, 0, Long.MAX_VALUE).getMessageList().size(),
              1,
              "second key");
          MessageExt u = p.viewMessage(c.topic(), last.getMsgId());
          eq(s(u), "b4", "by unique id");
          MessageExt o = p.viewMessage(c.topic(), last.getOffsetMsgId());
          eq(s(o), "b4", "by offset id");
          try {
            p.queryMessage(c.topic(), "no-such-key", 32, 0, Long.MAX_VALUE);
            check(false, "missing key must fail");
          } catch (MQClientException e) {
            eq(e.getResponseCode(), 208, "NO_MESSAGE code");
          }
        });
    CASES.put(
        "offset_queries",
        c -> {
          DefaultMQProducer p = c.producer();
          p.send(m(c.topic(), "A", "k", "w"));
          MessageQueue q = p.fetchPublishMessageQueues(c.topic()).get(0);
          for (int i = 0; i < 5; i++) p.send(m(c.topic(), "A", "k", "a" + i), q);
          Thread.sleep(1200);
          long mid = System.currentTimeMillis();
          Thread.sleep(1200);
          for (int i = 0; i < 5; i++) p.send(m(c.topic(), "A", "k", "z" + i), q);
          Thread.sleep(300);
          long max = p.maxOffset(q), min = p.minOffset(q);
          eq(min, 0L, "min");
          check(max == 10 || max == 11, "max " + max);
          eq(p.searchOffset(q, mid), max - 5, "searchOffset(mid)");
          check(Math.abs(p.earliestMsgStoreTime(q) - mid) < 60000, "earliestMsgStoreTime");
        });
    CASES.put(
        "offset_resume",
        c -> {
          DefaultMQProducer p = c.producer();
          for (int i = 0; i < 20; i++) p.send(m(c.topic(), "A", "k", "b" + i));
          List<MessageExt> a = new CopyOnWriteArrayList<>(), b = new CopyOnWriteArrayList<>();
          DefaultMQPushConsumer k = c.collect("c", c.topic(), "*", a);
          await(40, "20", () -> a.size() >= 20);
          Thread.sleep(500);
          k.shutdown();
          for (int i = 20; i < 30; i++) p.send(m(c.topic(), "A", "k", "b" + i));
          c.collect("c", c.topic(), "*", b);
          await(40, "10 new", () -> b.size() >= 10);
          Thread.sleep(1000);
          eq(b.size(), 10, "only new after restart");
        });
    CASES.put(
        "consume_from_last",
        c -> {
          DefaultMQProducer p = c.producer();
          for (int i = 0; i < 8; i++) p.send(m(c.topic(), "A", "k", "old" + i));
          List<MessageExt> a = new CopyOnWriteArrayList<>();
          c.push(
              "c",
              c.topic(),
              "*",
              k -> {
                k.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
                k.setConsumeTimestamp(
                    new java.text.SimpleDateFormat("yyyyMMddHHmmss")
                        .format(new Date(System.currentTimeMillis() - 3600_000)));
                k.registerMessageListener(
                    (MessageListenerConcurrently)
                        (ms, x) -> {
                          a.addAll(ms);
                          return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
              });
          await(40, "from 1 h ago", () -> a.size() >= 8);
        });
    CASES.put(
        "message_trace",
        c -> {
          DefaultMQProducer p = new DefaultMQProducer(c.group("tr"), null, true, null);
          c.start(p, z -> {});
          SendResult r = p.send(m(c.topic(), "A", "tracekey", "b"));
          String id = r.getMsgId();
          DefaultMQPullConsumer k = new DefaultMQPullConsumer(c.group("trr"));
          k.setNamesrvAddr(NS);
          k.setInstanceName("tr" + SEQ.incrementAndGet());
          k.start();
          c.closers.add(k::shutdown);
          AtomicReference<String> hit = new AtomicReference<>();
          await(
              40,
              "Pub record in RMQ_SYS_TRACE_TOPIC",
              () -> {
                try {
                  for (MessageQueue q : k.fetchSubscribeMessageQueues("RMQ_SYS_TRACE_TOPIC")) {
                    long mx = k.maxOffset(q), off = Math.max(k.minOffset(q), mx - 200);
                    while (off < mx) {
                      PullResult x = k.pull(q, "*", off, 32);
                      if (x.getPullStatus() != PullStatus.FOUND) break;
                      for (MessageExt e : x.getMsgFoundList())
                        if (s(e).contains(id)) {
                          hit.set(s(e));
                          return true;
                        }
                      off = x.getNextBeginOffset();
                    }
                  }
                } catch (Exception e) {
                }
                return false;
              });
          check(hit.get().startsWith("Pub") || hit.get().contains("Pub"), "Pub record");
        });
    CASES.put(
        "request_reply",
        c -> {
          DefaultMQProducer p = c.producer(),
              rp = c.producer(z -> z.setProducerGroup(c.group("rep")));
          p.send(m(c.topic(), "W", "k", "warm"));
          AtomicInteger w = new AtomicInteger();
          c.push(
              "c",
              c.topic(),
              "*",
              k ->
                  k.registerMessageListener(
                      (MessageListenerConcurrently)
                          (ms, x) -> {
                            for (MessageExt e : ms) {
                              w.incrementAndGet();
                              if (e.getProperty("REPLY_TO_CLIENT") == null) continue;
                              try {
                                rp.send(
                                    org.apache.rocketmq.client.utils.MessageUtil.createReplyMessage(
                                        e, ("re:" + s(e)).getBytes()));
                              } catch (Exception z) {
                                z.printStackTrace();
                              }
                            }
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                          }));
          await(40, "consumer warm", () -> w.get() >= 1);
          Message r;
          long t0 = System.currentTimeMillis();
          try {
            r = p.request(m(c.topic(), "A", "k", "ping"), 10000);
          } catch (RequestTimeoutException z) {
            if (System.currentTimeMillis() - t0 < 8000)
              throw new Skip(
                  "client bug apache/rocketmq#9319 (5.3.1-5.3.3 returns before the reply)");
            throw z;
          }
          eq(s(r), "re:ping", "reply");
        });
    CASES.put(
        "big_and_compressed",
        c -> {
          DefaultMQProducer p = c.producer(z -> z.setMaxMessageSize(8 << 20));
          char[] z = new char[2_000_000];
          Arrays.fill(z, 'z');
          String zip = new String(z);
          byte[] rnd = new byte[3_000_000];
          new Random(7).nextBytes(rnd);
          p.send(m(c.topic(), "A", "zip", zip));
          p.send(new Message(c.topic(), "A", "rnd", rnd));
          List<MessageExt> got = new CopyOnWriteArrayList<>();
          c.collect("c", c.topic(), "*", got);
          await(40, "2 big", () -> got.size() >= 2);
          for (MessageExt e : got)
            check(
                Arrays.equals(e.getBody(), e.getKeys().equals("zip") ? zip.getBytes() : rnd),
                e.getKeys() + " body");
          try {
            p.send(new Message(c.topic(), "A", "huge", new byte[5 << 20]));
            Random q = new Random(1);
            byte[] h = new byte[5 << 20];
            q.nextBytes(h);
            p.send(new Message(c.topic(), "A", "huge", h));
            check(false, "5 MiB incompressible must be refused");
          } catch (MQBrokerException e) {
            eq(e.getResponseCode(), 13, "MESSAGE_ILLEGAL");
          }
        });
    for (String algo : List.of("LZ4", "ZSTD", "ZLIB"))
      CASES.put(
          "compress_" + algo.toLowerCase(),
          c -> {
            DefaultMQProducer p =
                c.producer(
                    z -> {
                      boolean done = false;
                      for (Method me : DefaultMQProducer.class.getMethods())
                        if (me.getName().equals("setCompressType"))
                          try {
                            for (Object k : me.getParameterTypes()[0].getEnumConstants())
                              if (k.toString().equals(algo)) {
                                me.invoke(z, k);
                                done = true;
                              }
                          } catch (Exception e) {
                            throw new RuntimeException(e);
                          }
                      if (!done) throw new Skip("client has no setCompressType");
                    });
            String b = "compress me ".repeat(2000);
            p.send(m(c.topic(), "A", "k", b));
            List<MessageExt> got = new CopyOnWriteArrayList<>();
            c.collect("c", c.topic(), "*", got);
            await(40, "1", () -> got.size() >= 1);
            eq(s(got.get(0)), b, "body");
          });
    CASES.put(
        "no_such_topic",
        c -> {
          DefaultMQPullConsumer k = new DefaultMQPullConsumer(c.group("x"));
          k.setNamesrvAddr(NS);
          k.setInstanceName("nt" + SEQ.incrementAndGet());
          k.start();
          c.closers.add(k::shutdown);
          try {
            k.fetchSubscribeMessageQueues("nope_" + RUN);
            check(false, "must fail");
          } catch (MQClientException e) {
            check(true, "");
          }
          DefaultMQProducer p = c.producer();
          p.send(m(c.topic(), "A", "k", "w"));
          k.pull(new MessageQueue(c.topic(), brokerName(p, c.topic()), 0), "*", 0, 1);
          try {
            k.pull(new MessageQueue("nope_" + RUN, brokerName(p, c.topic()), 0), "*", 0, 1);
            check(false, "pull must fail");
          } catch (MQBrokerException e) {
            eq(e.getResponseCode(), 17, "TOPIC_NOT_EXIST");
          }
        });
    CASES.put(
        "lmq_multi_dispatch",
        c -> { // optional: needs enableLmq + enableMultiDispatch on the broker
          DefaultMQProducer p = c.producer();
          String lmq = "%LMQ%it_" + RUN;
          Message x = m(c.topic(), "A", "k", "lmq");
          x.putUserProperty("x", "y");
          org.apache.rocketmq.common.message.MessageAccessor.putProperty(
              x, "INNER_MULTI_DISPATCH", lmq);
          p.send(x);
          DefaultMQPullConsumer k = new DefaultMQPullConsumer(c.group("lmq"));
          k.setNamesrvAddr(NS);
          k.setInstanceName("lm" + SEQ.incrementAndGet());
          k.start();
          c.closers.add(k::shutdown);
          k.pull(new MessageQueue(c.topic(), brokerName(p, c.topic()), 0), "*", 0, 1);
          AtomicReference<String> why = new AtomicReference<>("");
          await(
              20,
              "lmq queue readable",
              () -> {
                try {
                  PullResult r =
                      k.pull(new MessageQueue(lmq, brokerName(p, c.topic()), 0), "*", 0, 1);
                  why.set("" + r.getPullStatus());
                  return r.getPullStatus() == PullStatus.FOUND
                      && s(r.getMsgFoundList().get(0)).equals("lmq");
                } catch (Exception e) {
                  why.set("" + e);
                  return false;
                }
              });
        });
  }

  static String brokerName(DefaultMQProducer p, String t) throws Exception {
    return p.fetchPublishMessageQueues(t).get(0).getBrokerName();
  }

  public static void main(String[] a) throws Exception {
    int par = Integer.parseInt(Optional.ofNullable(System.getenv("PAR")).orElse("3")),
        to = Integer.parseInt(Optional.ofNullable(System.getenv("CASE_TIMEOUT_S")).orElse("90"));
    ExecutorService ex = Executors.newFixedThreadPool(par, daemon()),
        inner = Executors.newCachedThreadPool(daemon());
    AtomicInteger pass = new AtomicInteger(),
        fail = new AtomicInteger(),
        skip = new AtomicInteger();
    List<Future<?>> fs = new ArrayList<>();
    Set<String> leftOut =
        Set.of(Optional.ofNullable(System.getenv("LEFT_OUT")).orElse("").split(","));
    for (Map.Entry<String, Body> e : CASES.entrySet()) {
      if (leftOut.contains(e.getKey())) {
        System.out.printf("%-24s             LEFT OUT%n", e.getKey());
        skip.incrementAndGet();
        continue;
      }
      if (a.length > 0 && Arrays.stream(a).noneMatch(e.getKey()::contains)) continue;
      fs.add(
          ex.submit(
              () -> {
                Ctx c = new Ctx(e.getKey());
                long t0 = System.currentTimeMillis();
                String out;
                Future<?> f =
                    inner.submit(
                        () -> {
                          e.getValue().run(c);
                          return null;
                        });
                try {
                  f.get(to, TimeUnit.SECONDS);
                  out = "PASS";
                  pass.incrementAndGet();
                } catch (Throwable t) {
                  Throwable z = t instanceof ExecutionException ? t.getCause() : t;
                  f.cancel(true);
                  if (z instanceof Skip) {
                    out = "SKIP: " + z.getMessage();
                    skip.incrementAndGet();
                  } else {
                    out = "FAIL: " + String.valueOf(z).replaceAll("\\s+", " ");
                    if (out.length() > 300) out = out.substring(0, 300);
                    fail.incrementAndGet();
                  }
                }
                System.out.printf(
                    "%-24s %6d ms  %s%n", e.getKey(), System.currentTimeMillis() - t0, out);
                for (Runnable r : c.closers)
                  try {
                    r.run();
                  } catch (Throwable t) {
                  }
              }));
    }
    for (Future<?> f : fs) f.get();
    System.out.printf("%d passed, %d failed, %d skipped%n", pass.get(), fail.get(), skip.get());
    System.exit(fail.get() == 0 ? 0 : 1);
  }

  static ThreadFactory daemon() {
    return r -> {
      Thread t = new Thread(r);
      t.setDaemon(true);
      return t;
    };
  }
}
