// Cases of the Java remoting client; they compile against rocketmq-client 4.9.x and 5.x.
// env: NAMESRV_ADDR, and those of Runner. args: parts of names of the cases to run (none = all).
import java.util.*;

public class Suite {
  static final Map<String, Runner.Case<Scene>> CASES = new LinkedHashMap<>();

  static {
    CASES.put("send_sync", Sending::sendSync);
    CASES.put("send_async", Sending::sendAsync);
    CASES.put("send_oneway", Sending::sendOneway);
    CASES.put("send_batch", Sending::sendBatch);
    CASES.put("send_queue_selector", Sending::sendQueueSelector);
    CASES.put("push_concurrent", Consuming::pushConcurrent);
    CASES.put("long_poll_latency", Consuming::longPollLatency);
    CASES.put("tag_filter", Consuming::tagFilter);
    CASES.put("sql_filter", Consuming::sqlFilter);
    CASES.put("sql_filter_bad_expr", Consuming::sqlFilterBadExpr);
    CASES.put("ordered", Consuming::ordered);
    CASES.put("delay_level", Redelivery::delayLevel);
    CASES.put("timer_arbitrary_delay", Redelivery::timerArbitraryDelay);
    CASES.put("timer_recall", Redelivery::timerRecall);
    CASES.put("transaction", Redelivery::transaction);
    CASES.put("pull_consumer", Consuming::pullConsumer);
    CASES.put("lite_pull_subscribe", Consuming::litePullSubscribe);
    CASES.put("lite_pull_assign_seek", Consuming::litePullAssignSeek);
    CASES.put("broadcasting", Consuming::broadcasting);
    CASES.put("cluster_rebalance", Consuming::clusterRebalance);
    CASES.put("retry", Redelivery::retry);
    CASES.put("dlq", Redelivery::dlq);
    CASES.put("pop_push", Popping::popPush);
    CASES.put("query_by_key", Queries::queryByKey);
    CASES.put("offset_queries", Queries::offsetQueries);
    CASES.put("offset_resume", Queries::offsetResume);
    CASES.put("consume_from_last", Queries::consumeFromLast);
    CASES.put("message_trace", Queries::messageTrace);
    CASES.put("request_reply", Queries::requestReply);
    CASES.put("big_and_compressed", Sending::bigAndCompressed);
    CASES.put("no_such_topic", Queries::noSuchTopic);
    CASES.put("lmq_multi_dispatch", Queries::lmqMultiDispatch);
    for (String algo : List.of("LZ4", "ZSTD", "ZLIB")) {
      CASES.put("compress_" + algo.toLowerCase(), c -> Sending.compress(c, algo));
    }
  }

  public static void main(String[] parts) throws Exception {
    Runner.run(CASES, Scene::new, 90, parts);
  }
}
