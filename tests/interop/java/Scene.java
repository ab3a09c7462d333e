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

/** One case: names of its own, and what it started, which is shut down at its end. */
class Scene extends Checks {
  final String name;

  Scene(String n) {
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
