import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Set;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException;

/**
 * Senders for tests of failover. The client has its default settings; each message is sent again
 * until it is acknowledged. Every attempt, also those that the client makes by itself, is a line of
 * the file {@code attempts}:
 *
 * <pre>
 * SENDER KEY QUEUE FROM..TO at OFFSET | refused | unknown
 * </pre>
 *
 * Times are microseconds since the given one. Senders rest while there is a file {@code pause}, and
 * end when there is a file {@code stop}.
 *
 * <p>env: NAMESRV_ADDR; arguments: TOPIC SENDERS PAUSE_MILLIS EPOCH_MICROS DEFINITE_CODES
 */
public final class Failover implements SendMessageHook {
  private static final Path PAUSE = Paths.get("pause");
  private static final Path STOP = Paths.get("stop");

  private final long zero;
  private final Set<String> definite;
  private final BufferedWriter out;
  private final ThreadLocal<Long> from = new ThreadLocal<>();

  private Failover(long epoch, Set<String> definite) throws Exception {
    this.definite = definite;
    long wall = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    zero = System.nanoTime() / 1000 - (wall - epoch);
    out =
        Files.newBufferedWriter(
            Paths.get("attempts"), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }

  public static void main(String[] args) throws Exception {
    String topic = args[0];
    Failover failover = new Failover(Long.parseLong(args[3]), Set.of(args[4].split(",")));
    DefaultMQProducer producer = new DefaultMQProducer("failover_java");
    producer.setNamesrvAddr(System.getenv("NAMESRV_ADDR"));
    producer.getDefaultMQProducerImpl().registerSendMessageHook(failover);
    producer.start();
    Thread[] threads = new Thread[Integer.parseInt(args[1])];
    for (int i = 0; i < threads.length; i++) {
      threads[i] = new Thread(() -> send(producer, topic, Long.parseLong(args[2])), "j" + i);
      threads[i].start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    producer.shutdown();
    failover.out.close();
    System.exit(0);
  }

  private static void send(DefaultMQProducer producer, String topic, long pause) {
    for (long number = 1; !Files.exists(STOP); number++) {
      String key = Thread.currentThread().getName() + "." + number;
      String body = key + " " + "x".repeat((int) (number * 37 % 900));
      boolean done = false;
      while (!done && !Files.exists(STOP)) {
        if (Files.exists(PAUSE)) {
          sleep(50);
          continue;
        }
        // A fresh message, as the client writes into the one that it sends.
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        Message message = new Message(topic, "tag" + number % 3, key, bytes);
        try {
          done = producer.send(message).getSendStatus() == SendStatus.SEND_OK;
        } catch (Exception failed) {
          System.out.println(key + ": " + failed);
        }
        sleep(done ? pause : 50);
      }
    }
  }

  private static void sleep(long millis) {
    try {
      Thread.sleep(Duration.ofMillis(millis).toMillis());
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
    }
  }

  private long now() {
    return System.nanoTime() / 1000 - zero;
  }

  @Override
  public String hookName() {
    return "attempts";
  }

  @Override
  public void sendMessageBefore(SendMessageContext context) {
    from.set(now());
  }

  @Override
  public void sendMessageAfter(SendMessageContext context) {
    String line =
        String.format(
            "%s %s %d %d..%d %s%n",
            Thread.currentThread().getName(),
            context.getMessage().getKeys(),
            context.getMq().getQueueId(),
            from.get(),
            now(),
            outcome(context));
    try {
      synchronized (out) {
        out.write(line);
        out.flush();
      }
    } catch (Exception failed) {
      // A ledger with holes is none.
      failed.printStackTrace();
      Runtime.getRuntime().halt(3);
    }
  }

  private String outcome(SendMessageContext context) {
    SendResult result = context.getSendResult();
    if (result != null) {
      boolean stored = result.getSendStatus() == SendStatus.SEND_OK;
      return stored ? "at " + result.getQueueOffset() : "unknown";
    }
    Exception why = context.getException();
    if (why instanceof MQBrokerException) {
      String code = Integer.toString(((MQBrokerException) why).getResponseCode());
      return definite.contains(code) ? "refused" : "unknown";
    }
    boolean unsent =
        why instanceof RemotingConnectException || why instanceof RemotingTooMuchRequestException;
    return unsent ? "refused" : "unknown";
  }
}
