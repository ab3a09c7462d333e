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

/** Queries for messages and offsets, and what else a client asks for. */
final class Queries extends Checks {
  static void queryByKey(Scene c) throws Exception {
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
  }

  static void offsetQueries(Scene c) throws Exception {
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
  }

  static void offsetResume(Scene c) throws Exception {
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
  }

  static void consumeFromLast(Scene c) throws Exception {
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
  }

  static void messageTrace(Scene c) throws Exception {
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
  }

  static void requestReply(Scene c) throws Exception {
    DefaultMQProducer p = c.producer(), rp = c.producer(z -> z.setProducerGroup(c.group("rep")));
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
    // 4.9 tells brokers of itself a second after its start: before, none can bring it a reply.
    p.getDefaultMQProducerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
    Message r;
    long t0 = System.currentTimeMillis();
    try {
      r = p.request(m(c.topic(), "A", "k", "ping"), 10000);
    } catch (RequestTimeoutException z) {
      if (System.currentTimeMillis() - t0 < 8000)
        throw new Skip("client bug apache/rocketmq#9319 (5.3.1-5.3.3 returns before the reply)");
      throw z;
    }
    eq(s(r), "re:ping", "reply");
  }

  static void noSuchTopic(Scene c) throws Exception {
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
  }

  static void lmqMultiDispatch(Scene c)
      throws Exception { // optional: needs enableLmq + enableMultiDispatch on the broker
    DefaultMQProducer p = c.producer();
    String lmq = "%LMQ%it_" + RUN;
    Message x = m(c.topic(), "A", "k", "lmq");
    x.putUserProperty("x", "y");
    org.apache.rocketmq.common.message.MessageAccessor.putProperty(x, "INNER_MULTI_DISPATCH", lmq);
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
            PullResult r = k.pull(new MessageQueue(lmq, brokerName(p, c.topic()), 0), "*", 0, 1);
            why.set("" + r.getPullStatus());
            return r.getPullStatus() == PullStatus.FOUND
                && s(r.getMsgFoundList().get(0)).equals("lmq");
          } catch (Exception e) {
            why.set("" + e);
            return false;
          }
        });
  }
}
