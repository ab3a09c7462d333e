import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.exception.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;

/** What cases have in common. */
class Checks extends Runner.Closing {
  static final String NS =
      Optional.ofNullable(System.getenv("NAMESRV_ADDR")).orElse("127.0.0.1:9876");
  static final String RUN = Long.toString(System.currentTimeMillis() % 100_000_000L, 36);
  static final AtomicInteger SEQ = new AtomicInteger();

  /** The client under test has no such call. */
  static class Skip extends Runner.Skip {
    Skip(String m) {
      super(m);
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

  /** A broker may acknowledge a message a moment before its queue shows it. */
  static void awaitStored(DefaultMQProducer p, String topic, long count) throws Exception {
    await(
        15,
        count + " stored",
        () -> {
          try {
            return total(p, topic) == count;
          } catch (Exception e) {
            return false;
          }
        });
  }

  static String brokerName(DefaultMQProducer p, String t) throws Exception {
    return p.fetchPublishMessageQueues(t).get(0).getBrokerName();
  }
}
