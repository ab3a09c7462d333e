// Writes messages and keeps a ledger of those that were acknowledged; compares a ledger with what
// a broker holds; consumes. All by the official client.
// env: NAMESRV_ADDR
//   produce TOPIC LEDGER COUNT THREADS [PAUSE [DELAY]]   until COUNT are acknowledged or none was for a
//                                        minute; PAUSE milliseconds between two sends of a thread;
//                                        by timers of DELAY seconds
//   verify TOPIC LEDGER keys|ids|moved   every entry of the ledger at its queue offset, byte-equal;
//                                        a sample of them by key and id, or by id alone, or by key
//                                        and the id that the stored message has now
//   timers TOPIC LEDGER DELAY            every entry of a ledger of timers came, none before its time;
//                                        tells of each that came more than once when it did, and how
//                                        many they are
//   consume TOPIC GROUP COUNT            by a push consumer; then waits whether more come
// A line of a ledger: sequence number, queue id, queue offset, message id by offset.
import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

public class Ledger {
  static final String NAME_SERVER = System.getenv("NAMESRV_ADDR");

  /** Entries whose key is looked up and whose message id is resolved: one in so many. */
  static final int SAMPLE = 97;

  /** Nanoseconds without an acknowledgement after which a producer gives up. */
  static final long PATIENCE = 60_000_000_000L;

  record Entry(long sequence, int queue, long offset, String id) {}

  /** The body is made from the sequence number, so that a ledger need not hold it. */
  static byte[] body(long sequence) {
    Random random = new Random(sequence);
    byte[] body = new byte[1 + random.nextInt(2000)];
    random.nextBytes(body);
    return body;
  }

  static DefaultMQProducer producer(int retries) throws Exception {
    DefaultMQProducer producer = new DefaultMQProducer("ledger_" + System.nanoTime());
    producer.setNamesrvAddr(NAME_SERVER);
    producer.setRetryTimesWhenSendFailed(retries);
    producer.setSendMsgTimeout(10_000);
    producer.setPollNameServerInterval(1000);
    producer.setCompressMsgBodyOverHowmuch(1 << 20);
    producer.start();
    return producer;
  }

  static void produce(
      String topic, Path ledger, int count, int threads, long pause, long delay)
      throws Exception {
    DefaultMQProducer producer = producer(0);
    AtomicLong next = new AtomicLong(Files.exists(ledger) ? read(ledger).size() * 2L : 0);
    AtomicInteger acknowledged = new AtomicInteger();
    AtomicInteger failuresInRow = new AtomicInteger();
    // A broker that takes over or registers refuses at once: many refusals are no long time.
    AtomicLong lastAcknowledged = new AtomicLong(System.nanoTime());
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try (BufferedWriter out =
        Files.newBufferedWriter(ledger, StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
      for (int i = 0; i < threads; i++) {
        pool.submit(
            () -> {
              while (acknowledged.get() < count
                  && System.nanoTime() - lastAcknowledged.get() < PATIENCE) {
                long sequence = next.getAndIncrement();
                Message message = new Message(topic, "T" + sequence % 3, body(sequence));
                message.setKeys("key-" + sequence);
                if (delay > 0) message.setDelayTimeSec(delay);
                try {
                  SendResult result = producer.send(message);
                  if (result.getSendStatus() != SendStatus.SEND_OK) continue;
                  synchronized (out) {
                    out.write(
                        String.format(
                            "%d %d %d %s%n",
                            sequence,
                            result.getMessageQueue().getQueueId(),
                            result.getQueueOffset(),
                            result.getOffsetMsgId()));
                    out.flush();
                  }
                  acknowledged.incrementAndGet();
                  failuresInRow.set(0);
                  lastAcknowledged.set(System.nanoTime());
                  Thread.sleep(pause);
                } catch (Exception failed) {
                  if (failuresInRow.incrementAndGet() == 1) {
                    System.out.println(failed.getMessage() + " by " + failed.getCause());
                  }
                  System.out.println("failed " + System.currentTimeMillis());
                  Thread.sleep(50);
                }
              }
              return null;
            });
      }
      pool.shutdown();
      pool.awaitTermination(10, TimeUnit.MINUTES);
    }
    producer.shutdown();
    System.out.println("acknowledged " + acknowledged.get());
    System.exit(acknowledged.get() >= count ? 0 : 1);
  }

  static List<Entry> read(Path ledger) throws IOException {
    List<Entry> entries = new ArrayList<>();
    for (String line : Files.readAllLines(ledger)) {
      String[] parts = line.split(" ");
      if (parts.length != 4) continue; // Cut off when the writer was killed.
      entries.add(
          new Entry(
              Long.parseLong(parts[0]),
              Integer.parseInt(parts[1]),
              Long.parseLong(parts[2]),
              parts[3]));
    }
    return entries;
  }

  static void verify(String topic, Path ledger, String mode) throws Exception {
    boolean byKey = !mode.equals("ids");
    List<Entry> entries = read(ledger);
    DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("ledger_reader");
    consumer.setNamesrvAddr(NAME_SERVER);
    consumer.start();
    DefaultMQProducer producer = producer(3);
    int faults = 0;
    Map<Integer, Map<Long, MessageExt>> stored = new HashMap<>();
    for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
      stored.put(queue.getQueueId(), drain(consumer, queue));
    }
    for (Map.Entry<Integer, Map<Long, MessageExt>> queue : stored.entrySet()) {
      long expected = -1;
      for (long offset : queue.getValue().keySet()) {
        if (expected >= 0 && offset != expected) {
          faults += fault("queue " + queue.getKey() + ": hole before offset " + offset);
        }
        expected = offset + 1;
      }
    }
    int at = 0;
    for (Entry entry : entries) {
      MessageExt message = stored.getOrDefault(entry.queue, Map.of()).get(entry.offset);
      if (message == null) {
        faults += fault("lost: " + entry);
      } else if (!Arrays.equals(message.getBody(), body(entry.sequence))) {
        faults += fault("another body: " + entry);
      } else if (!("key-" + entry.sequence).equals(message.getKeys())) {
        faults += fault("another key: " + entry + " has " + message.getKeys());
      }
      if (at++ % SAMPLE != 0) continue;
      Entry wanted = entry;
      if (mode.equals("moved") && message instanceof MessageClientExt client) {
        wanted = new Entry(entry.sequence, entry.queue, entry.offset, client.getOffsetMsgId());
      }
      faults += lookUp(producer, topic, wanted, byKey);
    }
    int sum = stored.values().stream().mapToInt(Map::size).sum();
    consumer.shutdown();
    producer.shutdown();
    System.out.printf(
        "verified %d of %d, stored %d%n", entries.size() - faults, entries.size(), sum);
    System.exit(faults == 0 && !entries.isEmpty() ? 0 : 1);
  }

  /** Timers come at least once: a switch may deliver those of its last seconds again. */
  static void timers(String topic, Path ledger, long delay) throws Exception {
    List<Entry> entries = read(ledger);
    DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("ledger_reader");
    consumer.setNamesrvAddr(NAME_SERVER);
    consumer.start();
    Map<String, List<Long>> copies = new HashMap<>();
    int faults = 0;
    for (long end = System.nanoTime() + PATIENCE; ; Thread.sleep(1000)) {
      copies.clear();
      faults = 0;
      for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
        for (MessageExt message : drain(consumer, queue).values()) {
          copies
              .computeIfAbsent(message.getKeys(), key -> new ArrayList<>())
              .add(message.getStoreTimestamp());
          long early = message.getBornTimestamp() + delay * 1000 - message.getStoreTimestamp();
          if (early > 0) faults += fault(message.getKeys() + " came " + early + " ms too early");
        }
      }
      boolean all = entries.stream().allMatch(entry -> copies.containsKey("key-" + entry.sequence));
      if (all || System.nanoTime() > end) break;
    }
    for (Entry entry : entries) {
      if (!copies.containsKey("key-" + entry.sequence)) faults += fault("never came: " + entry);
    }
    consumer.shutdown();
    int again = 0;
    for (List<Long> times : copies.values()) {
      if (times.size() < 2) continue;
      Collections.sort(times);
      again++;
      times.forEach(time -> System.out.print("came " + time + " "));
      System.out.println();
    }
    System.out.printf("timers %d, faults %d, came again %d%n", entries.size(), faults, again);
    System.exit(faults == 0 && !entries.isEmpty() ? 0 : 1);
  }

  static int fault(String text) {
    System.out.println(text);
    return 1;
  }

  static SortedMap<Long, MessageExt> drain(DefaultMQPullConsumer consumer, MessageQueue queue)
      throws Exception {
    SortedMap<Long, MessageExt> found = new TreeMap<>();
    long end = consumer.maxOffset(queue);
    for (long offset = consumer.minOffset(queue); offset < end; ) {
      PullResult result = consumer.pull(queue, "*", offset, 32);
      if (result.getPullStatus() == PullStatus.FOUND) {
        for (MessageExt message : result.getMsgFoundList()) {
          found.put(message.getQueueOffset(), message);
        }
      }
      if (result.getNextBeginOffset() <= offset) {
        fault(queue + ": stuck at " + offset + " of " + end + ": " + result);
        break;
      }
      offset = result.getNextBeginOffset();
    }
    return found;
  }

  /** Finds the message of an entry by its id, and by its key if wanted. */
  static int lookUp(DefaultMQProducer producer, String topic, Entry entry, boolean byKey)
      throws Exception {
    String key = "key-" + entry.sequence;
    String failure = "";
    for (int tries = 0; tries < 40; tries++) { // The index follows the log.
      try {
        byte[] byId = producer.viewMessage(topic, entry.id).getBody();
        if (!Arrays.equals(byId, body(entry.sequence)))
          return fault("another body by id: " + entry);
        if (!byKey) return 0;
        List<MessageExt> found =
            producer.queryMessage(topic, key, 32, 0, Long.MAX_VALUE).getMessageList();
        if (found.size() != 1) return fault(found.size() + " messages of " + key);
        if (!Arrays.equals(found.get(0).getBody(), body(entry.sequence))) {
          return fault("another body by key: " + entry);
        }
        return 0;
      } catch (Exception notYet) {
        failure = notYet.toString();
        Thread.sleep(250);
      }
    }
    return fault("not found by key or id: " + entry + " " + failure);
  }

  static void consume(String topic, String group, int count) throws Exception {
    AtomicInteger got = new AtomicInteger();
    ConcurrentMap<Integer, Long> first = new ConcurrentSkipListMap<>();
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(NAME_SERVER);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(topic, "*");
    consumer.registerMessageListener(
        (MessageListenerConcurrently)
            (messages, context) -> {
              got.addAndGet(messages.size());
              for (MessageExt message : messages) {
                first.merge(message.getQueueId(), message.getQueueOffset(), Math::min);
              }
              return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
    consumer.start();
    long end = System.nanoTime() + 60_000_000_000L;
    while (got.get() < count && System.nanoTime() < end) Thread.sleep(20);
    Thread.sleep(2000);
    consumer.shutdown();
    System.out.println("first offsets of each queue " + first);
    System.out.println("consumed " + got.get() + " of " + count);
    System.exit(got.get() == count ? 0 : 1);
  }

  public static void main(String[] args) throws Exception {
    switch (args[0]) {
      case "produce" ->
          produce(
              args[1],
              Paths.get(args[2]),
              Integer.parseInt(args[3]),
              Integer.parseInt(args[4]),
              args.length > 5 ? Long.parseLong(args[5]) : 0,
              args.length > 6 ? Long.parseLong(args[6]) : 0);
      case "timers" -> timers(args[1], Paths.get(args[2]), Long.parseLong(args[3]));
      case "verify" -> verify(args[1], Paths.get(args[2]), args[3]);
      case "consume" -> consume(args[1], args[2], Integer.parseInt(args[3]));
      default -> throw new IllegalArgumentException(args[0]);
    }
  }
}
