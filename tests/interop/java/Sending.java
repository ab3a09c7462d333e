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

/** Sending: sync, async, oneway, batches, to a chosen queue, large and compressed bodies. */
final class Sending extends Checks {
  static void sendSync(Scene c) throws Exception {
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
    awaitStored(p, c.topic(), 10);
  }

  static void sendAsync(Scene c) throws Exception {
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
  }

  static void sendOneway(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "A", "k", "warm"));
    for (int i = 0; i < 20; i++) p.sendOneway(m(c.topic(), "A", "k" + i, "b" + i));
    awaitStored(p, c.topic(), 21);
  }

  static void sendBatch(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    List<Message> b = new ArrayList<>();
    for (int i = 0; i < 32; i++) b.add(m(c.topic(), "T" + i % 3, "key" + i, "batch" + i));
    SendResult r = p.send(b);
    eq(r.getSendStatus(), SendStatus.SEND_OK, "status");
    eq(r.getMsgId().split(",").length, 32, "msgIds");
    eq(r.getOffsetMsgId().split(",").length, 32, "offsetMsgIds");
    List<MessageExt> got = new CopyOnWriteArrayList<>();
    c.collect("c", c.topic(), "*", got);
    await(60, "32 msgs", () -> got.size() >= 32);
    Set<String> bodies = new TreeSet<>();
    for (MessageExt x : got) bodies.add(s(x) + x.getTags() + x.getKeys());
    eq(bodies.size(), 32, "distinct");
  }

  static void sendQueueSelector(Scene c) throws Exception {
    DefaultMQProducer p = c.producer();
    p.send(m(c.topic(), "A", "k", "warm"));
    for (int i = 0; i < 8; i++) {
      SendResult r =
          p.send(m(c.topic(), "A", "k", "x"), (qs, msg, a) -> qs.get((Integer) a % qs.size()), i);
      eq(r.getMessageQueue().getQueueId(), i % 4, "queue");
    }
  }

  static void bigAndCompressed(Scene c) throws Exception {
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
  }

  static void compress(Scene c, String algo) throws Exception {
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
  }
}
