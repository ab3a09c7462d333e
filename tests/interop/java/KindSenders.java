import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException;

/** The senders of {@link Kinds}, each a thread. Every attempt is noted, the client's own ones too. */
final class KindSenders implements SendMessageHook, TransactionListener {
  private static final List<String> ENDS =
      List.of("commit", "check-commit", "rollback", "commit", "check-rollback");

  /** One more than there are queues, so that a queue has those of two. */
  private static final int QUEUE_SENDERS = Kinds.QUEUES + 1;

  /** What the first levels of delay are. */
  private static final int[] LEVEL_MS = {1_000, 5_000, 10_000, 30_000};

  private final Noted noted;
  private final Set<String> definite;
  private final ThreadLocal<Long> from = new ThreadLocal<>();
  private final DefaultMQProducer producer = new DefaultMQProducer("kinds_p");
  private final TransactionMQProducer transactions = new TransactionMQProducer("kinds_tp");

  KindSenders(Noted noted, Set<String> definite) throws Exception {
    this.noted = noted;
    this.definite = definite;
    transactions.setTransactionListener(this);
    for (DefaultMQProducer each : List.of(producer, transactions)) {
      each.setNamesrvAddr(Kinds.namesrv());
      each.setInstanceName("P");
      each.getDefaultMQProducerImpl().registerSendMessageHook(this);
      each.start();
    }
  }

  DefaultMQProducer producer() {
    return producer;
  }

  List<Thread> start() {
    List<Thread> threads = new ArrayList<>();
    add(threads, "plain", 2, 20, this::send);
    add(threads, "orderly", QUEUE_SENDERS, 20, this::sendInOrder);
    add(threads, "transaction", 2, 60, this::sendInTransaction);
    add(threads, "delay", 1, 60, this::send);
    add(threads, "timer", 1, 60, this::send);
    add(threads, "pop", 2, 30, this::send);
    add(threads, "retry", 1, 100, this::send);
    threads.forEach(Thread::start);
    return threads;
  }

  void shutdown() {
    producer.shutdown();
    transactions.shutdown();
  }

  /** Sends a message once, which may be several attempts of the client. */
  interface Sender {
    boolean send(Message message, int sender) throws Exception;
  }

  private void add(List<Thread> threads, String kind, int count, long pause, Sender how) {
    for (int i = 0; i < count; i++) {
      int sender = i;
      threads.add(new Thread(() -> all(kind, sender, pause, how), kind + i));
    }
  }

  private static void all(String kind, int sender, long pause, Sender how) {
    for (long number = 1; !Files.exists(Noted.STOP); number++) {
      boolean done = false;
      while (!done && !Files.exists(Noted.STOP)) {
        try {
          done = how.send(message(kind, sender, number), sender);
        } catch (Exception failed) {
          System.out.printf("%s.%d.%d: %s%n", kind, sender, number, failed);
        }
        Noted.sleep(done ? pause : 50);
      }
    }
  }

  private static Message message(String kind, int sender, long number) {
    String key = kind + "." + sender + "." + number;
    Message message = new Message(Kinds.topic(kind), "t" + number % 3, key, Noted.body(key));
    String fate = "once";
    switch (kind) {
      case "transaction":
        fate = ENDS.get((int) (number % ENDS.size()));
        break;
      case "delay":
        int level = (int) (number % LEVEL_MS.length);
        message.setDelayTimeLevel(level + 1);
        fate = "after:" + LEVEL_MS[level];
        break;
      case "timer":
        fate = timed(message, number);
        break;
      case "orderly":
        if (number % 200 == 0) fate = "refuse:1";
        if (number % 500 == 250) fate = "dead";
        break;
      case "pop":
        if (number % 10 == 0) fate = "refuse:1";
        break;
      case "retry":
        if (number % 3 == 0) fate = "refuse:1";
        if (number % 3 == 1) fate = "dead";
        break;
      default:
    }
    message.putUserProperty(Noted.FATE, fate);
    return message;
  }

  private static String timed(Message message, long number) {
    switch ((int) (number % 4)) {
      case 0:
        message.setDelayTimeSec(3);
        return "after:3000";
      case 1:
        message.setDelayTimeMs(1_700);
        return "after:1700";
      case 2:
        long due = Noted.now() + 12_345;
        message.setDeliverTimeMs(due);
        return "at:" + due;
      default:
        message.setDelayTimeSec(35);
        return "after:35000";
    }
  }

  private boolean send(Message message, int sender) throws Exception {
    return producer.send(message).getSendStatus() == SendStatus.SEND_OK;
  }

  private boolean sendInOrder(Message message, int sender) throws Exception {
    SendResult sent =
        producer.send(message, (queues, it, key) -> queues.get(sender % queues.size()), sender);
    return sent.getSendStatus() == SendStatus.SEND_OK;
  }

  private boolean sendInTransaction(Message message, int sender) throws Exception {
    return transactions.sendMessageInTransaction(message, null).getSendStatus()
        == SendStatus.SEND_OK;
  }

  @Override
  public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
    switch (message.getProperty(Noted.FATE)) {
      case "commit":
        return LocalTransactionState.COMMIT_MESSAGE;
      case "rollback":
        return LocalTransactionState.ROLLBACK_MESSAGE;
      default:
        return LocalTransactionState.UNKNOW;
    }
  }

  @Override
  public LocalTransactionState checkLocalTransaction(MessageExt message) {
    return message.getProperty(Noted.FATE).endsWith("commit")
        ? LocalTransactionState.COMMIT_MESSAGE
        : LocalTransactionState.ROLLBACK_MESSAGE;
  }

  @Override
  public String hookName() {
    return "attempts";
  }

  @Override
  public void sendMessageBefore(SendMessageContext context) {
    from.set(Noted.now());
  }

  @Override
  public void sendMessageAfter(SendMessageContext context) {
    Message message = context.getMessage();
    noted.sent(
        message.getKeys(), message.getProperty(Noted.FATE), from.get(), outcome(context));
  }

  private String outcome(SendMessageContext context) {
    SendResult result = context.getSendResult();
    if (result != null) {
      return result.getSendStatus() == SendStatus.SEND_OK ? "ok" : "unknown";
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
