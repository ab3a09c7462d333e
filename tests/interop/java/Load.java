import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * A load by the official client, with the flags and the output of {@code ledgermq bench --json}:
 * what a Java application sees of a broker.
 *
 * <pre>
 * Load produce --namesrv A --topic T --style sync|async --threads N --window N --body BYTES
 *              --warmup 2s --duration 4s
 * Load consume --namesrv A --topic T
 * </pre>
 */
public final class Load {
  private final Map<String, String> options = new HashMap<>();
  private final AtomicLong all = new AtomicLong();
  private final AtomicLong measured = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final Latencies latencies = new Latencies();
  private long from;
  private long until;

  public static void main(String[] words) throws Exception {
    Load load = new Load();
    for (int i = 1; i + 1 < words.length; i += 2) {
      load.options.put(words[i].substring(2), words[i + 1]);
    }
    if (words[0].equals("produce")) {
      load.produce();
    } else {
      load.consume();
    }
    System.exit(0);
  }

  private String option(String name, String other) {
    return options.getOrDefault(name, other);
  }

  private int number(String name, int other) {
    return Integer.parseInt(option(name, Integer.toString(other)).replace("s", ""));
  }

  private void begin() {
    from = System.nanoTime() + number("warmup", 0) * 1_000_000_000L;
    until = from + number("duration", 4) * 1_000_000_000L;
  }

  /** Counts an answer by the time at which it came. */
  private void count(boolean good, long began) {
    long now = System.nanoTime();
    if (!good) {
      failed.incrementAndGet();
      return;
    }
    all.incrementAndGet();
    if (now >= from && now < until) {
      measured.incrementAndGet();
      latencies.add(now - began);
    }
  }

  private void produce() throws Exception {
    DefaultMQProducer producer = new DefaultMQProducer("load_producer");
    producer.setNamesrvAddr(option("namesrv", ""));
    producer.setRetryTimesWhenSendFailed(0);
    producer.setRetryTimesWhenSendAsyncFailed(0);
    producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
    producer.setMaxMessageSize(8 << 20);
    producer.start();
    String topic = option("topic", "load");
    producer.createTopic("TBW102", topic, 8, Collections.emptyMap());
    byte[] body = new byte[number("body", 1024)];
    new Random(7).nextBytes(body);
    waitFor(producer, topic, body);
    begin();
    if (option("style", "sync").equals("sync")) {
      sync(producer, topic, body);
    } else {
      async(producer, topic, body);
    }
    print(number("duration", 4) * 1e9, "\"messagesInAll\":" + all.get());
    producer.shutdown();
  }

  /** A new topic reaches the route of the client a little later. */
  private void waitFor(DefaultMQProducer producer, String topic, byte[] body) throws Exception {
    for (int tries = 1; ; tries++) {
      try {
        producer.send(new Message(topic, body));
        return;
      } catch (Exception e) {
        if (tries == 100) {
          throw e;
        }
        Thread.sleep(100);
      }
    }
  }

  private void sync(DefaultMQProducer producer, String topic, byte[] body) throws Exception {
    Thread[] threads = new Thread[number("threads", 1)];
    for (int i = 0; i < threads.length; i++) {
      threads[i] =
          new Thread(
              () -> {
                for (long began; (began = System.nanoTime()) < until; ) {
                  try {
                    SendResult sent = producer.send(new Message(topic, body));
                    count(sent.getSendStatus() == SendStatus.SEND_OK, began);
                  } catch (Exception e) {
                    count(false, began);
                  }
                }
              });
      threads[i].start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }

  private void async(DefaultMQProducer producer, String topic, byte[] body) throws Exception {
    int window = number("window", 1000);
    Semaphore room = new Semaphore(window);
    for (long began; (began = System.nanoTime()) < until; ) {
      room.acquire();
      long sentAt = System.nanoTime();
      SendCallback callback =
          new SendCallback() {
            @Override
            public void onSuccess(SendResult sent) {
              room.release();
              count(sent.getSendStatus() == SendStatus.SEND_OK, sentAt);
            }

            @Override
            public void onException(Throwable e) {
              room.release();
              count(false, sentAt);
            }
          };
      try {
        producer.send(new Message(topic, body), callback);
      } catch (Exception e) {
        callback.onException(e);
      }
    }
    room.acquire(window);
  }

  /** Reads a topic from its first message until nothing came for two seconds. */
  private void consume() throws Exception {
    DefaultMQPushConsumer consumer =
        new DefaultMQPushConsumer("load_consumer_" + System.currentTimeMillis());
    consumer.setNamesrvAddr(option("namesrv", ""));
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.setConsumeMessageBatchMaxSize(32);
    consumer.subscribe(option("topic", "load"), "*");
    AtomicLong first = new AtomicLong();
    AtomicLong last = new AtomicLong();
    consumer.registerMessageListener(
        (MessageListenerConcurrently)
            (messages, context) -> {
              long now = System.nanoTime();
              first.compareAndSet(0, now);
              last.set(now);
              all.addAndGet(messages.size());
              return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
    consumer.start();
    long limit = System.nanoTime() + number("limit", 60) * 1_000_000_000L;
    while (System.nanoTime() < limit
        && (last.get() == 0 || System.nanoTime() - last.get() < 2_000_000_000L)) {
      Thread.sleep(100);
    }
    measured.set(all.get());
    print(last.get() - first.get(), "\"received\":" + all.get());
    consumer.shutdown();
  }

  private void print(double nanos, String more) {
    double rate = measured.get() * 1e9 / Math.max(1, nanos);
    Map<String, Double> at = new TreeMap<>();
    at.put("p50", latencies.quantile(0.5));
    at.put("p99", latencies.quantile(0.99));
    StringBuilder quantiles = new StringBuilder();
    at.forEach((name, millis) -> quantiles.append(",\"" + name + "\":" + millis));
    System.out.println(
        "{\"messagesPerSecond\":"
            + rate
            + ",\"failed\":"
            + failed.get()
            + ",\"latencyMs\":{"
            + quantiles.substring(1)
            + "},"
            + more
            + "}");
  }

  /** Latencies in classes of one part in 64. */
  private static final class Latencies {
    private final long[] classes = new long[64 * 64];

    synchronized void add(long nanos) {
      classes[index(Math.max(nanos / 1000, 1))]++;
    }

    private static int index(long micros) {
      int power = 63 - Long.numberOfLeadingZeros(micros);
      int part = power < 6 ? (int) (micros - (1L << power)) << (6 - power)
          : (int) ((micros >> (power - 6)) - 64);
      return power * 64 + part;
    }

    synchronized double quantile(double part) {
      long sum = Arrays.stream(classes).sum();
      long rank = (long) Math.ceil(part * sum);
      for (int i = 0; i < classes.length; i++) {
        rank -= classes[i];
        if (rank <= 0) {
          double micros = Math.scalb(1 + (i % 64) / 64.0, i / 64);
          return sum == 0 ? 0 : micros / 1000;
        }
      }
      return 0;
    }
  }
}
