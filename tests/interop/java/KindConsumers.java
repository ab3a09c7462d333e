import java.util.List;
import java.util.stream.Stream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The consumers of {@link Kinds}. */
final class KindConsumers {
  /** Else a minute: what a kill took from a consumer would come late. */
  private static final long INVISIBLE_MS = 10_000;

  /** What is refused comes again after a second; in POP mode this number means half a minute. */
  private static final int SOON = 1;

  /** As the client has it: after ten seconds in POP mode. */
  private static final int USUAL = 0;

  /** How long a queue stands still whose message was refused; else a second each time. */
  private static final long SUSPENDED_MS = 300;

  private KindConsumers() {}

  static DefaultMQPushConsumer start(String kind, String by, Noted noted) throws Exception {
    DefaultMQPushConsumer consumer = consumer(Kinds.group(kind), by);
    consumer.subscribe(Kinds.topic(kind), "*");
    if (kind.equals("retry") || kind.equals("orderly")) {
      consumer.setMaxReconsumeTimes(Kinds.MAX_TRIES);
    }
    if (kind.equals("pop")) {
      consumer.setClientRebalance(false);
      consumer.setPopInvisibleTime(INVISIBLE_MS);
    }
    if (kind.equals("orderly")) {
      consumer.registerMessageListener(inOrder(by, noted));
    } else {
      consumer.registerMessageListener(atOnce(by, kind.equals("pop") ? USUAL : SOON, noted));
    }
    consumer.start();
    return consumer;
  }

  /** What the groups of {@code retry} and {@code orderly} have given up. */
  static DefaultMQPushConsumer startDeadLetters(Noted noted) throws Exception {
    DefaultMQPushConsumer consumer = consumer(Kinds.group("dead"), "A");
    consumer.subscribe("%DLQ%" + Kinds.group("retry"), "*");
    consumer.subscribe("%DLQ%" + Kinds.group("orderly"), "*");
    consumer.registerMessageListener(atOnce("A", USUAL, noted));
    consumer.start();
    return consumer;
  }

  /** How many queues of a topic a consumer has. */
  static long share(DefaultMQPushConsumer consumer, String topic) {
    RebalanceImpl rebalance = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl();
    Stream<MessageQueue> queues =
        Stream.concat(
            rebalance.getProcessQueueTable().keySet().stream(),
            rebalance.getPopProcessQueueTable().keySet().stream());
    return queues.filter(queue -> queue.getTopic().equals(topic)).count();
  }

  private static DefaultMQPushConsumer consumer(String group, String by) {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(Kinds.namesrv());
    consumer.setInstanceName(by);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    return consumer;
  }

  private static MessageListenerConcurrently atOnce(String by, int again, Noted noted) {
    return (messages, context) -> {
      boolean taken = true;
      for (MessageExt message : messages) {
        taken &= take(message, by, context.getMessageQueue(), noted);
      }
      context.setDelayLevelWhenNextConsume(again);
      return taken
          ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
          : ConsumeConcurrentlyStatus.RECONSUME_LATER;
    };
  }

  private static MessageListenerOrderly inOrder(String by, Noted noted) {
    return (messages, context) -> {
      boolean taken = true;
      for (MessageExt message : messages) {
        taken &= take(message, by, context.getMessageQueue(), noted);
      }
      context.setSuspendCurrentQueueTimeMillis(SUSPENDED_MS);
      return taken
          ? ConsumeOrderlyStatus.SUCCESS
          : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
    };
  }

  private static boolean take(MessageExt message, String by, MessageQueue queue, Noted noted) {
    long from = Noted.now();
    String key = message.getKeys();
    boolean taken = !refuses(message, queue);
    // Long enough that two consumers at one queue would be seen.
    Noted.sleep(1);
    String place =
        String.format(
            "%s/%d@%d:%d",
            queue.getTopic(),
            message.getQueueId(),
            message.getQueueOffset(),
            message.getCommitLogOffset());
    String rest =
        String.format(
            "%d %d %s %s",
            message.getReconsumeTimes(),
            message.getBornTimestamp(),
            taken ? "took" : "refused",
            Noted.whole(key, message.getBody()) ? "whole" : "spoilt");
    noted.got(key, from, by, place, rest);
    return taken;
  }

  private static boolean refuses(MessageExt message, MessageQueue queue) {
    String fate = message.getProperty(Noted.FATE);
    if (fate.equals("dead")) {
      return !queue.getTopic().startsWith("%DLQ%");
    }
    List<String> words = List.of(fate.split(":"));
    return words.get(0).equals("refuse")
        && message.getReconsumeTimes() < Integer.parseInt(words.get(1));
  }
}
