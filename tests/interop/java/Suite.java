// Cases of the Java remoting client; they compile against rocketmq-client 4.9.x and 5.x.
// env: NAMESRV_ADDR, LEFT_OUT (names of cases), PAR (cases at a time, 3), CASE_TIMEOUT_S (90)
// args: parts of names of the cases to run (none = all).
// Prints each case with PASS, FAIL or SKIP, then "N passed, N failed, N skipped".
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.exception.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;

public class Suite {
  interface Body {
    void run(Scene c) throws Exception;
  }

  static final Map<String, Body> CASES = new LinkedHashMap<>();

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

  public static void main(String[] a) throws Exception {
    int par = Integer.parseInt(Optional.ofNullable(System.getenv("PAR")).orElse("3")),
        to = Integer.parseInt(Optional.ofNullable(System.getenv("CASE_TIMEOUT_S")).orElse("90"));
    ExecutorService ex = Executors.newFixedThreadPool(par, daemon()),
        inner = Executors.newCachedThreadPool(daemon());
    AtomicInteger pass = new AtomicInteger(),
        fail = new AtomicInteger(),
        skip = new AtomicInteger();
    List<Future<?>> fs = new ArrayList<>();
    Set<String> leftOut =
        Set.of(Optional.ofNullable(System.getenv("LEFT_OUT")).orElse("").split(","));
    for (Map.Entry<String, Body> e : CASES.entrySet()) {
      if (leftOut.contains(e.getKey())) {
        System.out.printf("%-24s             LEFT OUT%n", e.getKey());
        skip.incrementAndGet();
        continue;
      }
      if (a.length > 0 && Arrays.stream(a).noneMatch(e.getKey()::contains)) continue;
      fs.add(
          ex.submit(
              () -> {
                Scene c = new Scene(e.getKey());
                long t0 = System.currentTimeMillis();
                String out;
                Future<?> f =
                    inner.submit(
                        () -> {
                          e.getValue().run(c);
                          return null;
                        });
                try {
                  f.get(to, TimeUnit.SECONDS);
                  out = "PASS";
                  pass.incrementAndGet();
                } catch (Throwable t) {
                  Throwable z = t instanceof ExecutionException ? t.getCause() : t;
                  f.cancel(true);
                  if (z instanceof Checks.Skip) {
                    out = "SKIP: " + z.getMessage();
                    skip.incrementAndGet();
                  } else {
                    out = "FAIL: " + String.valueOf(z).replaceAll("\\s+", " ");
                    if (out.length() > 300) out = out.substring(0, 300);
                    fail.incrementAndGet();
                  }
                }
                System.out.printf(
                    "%-24s %6d ms  %s%n", e.getKey(), System.currentTimeMillis() - t0, out);
                for (Runnable r : c.closers)
                  try {
                    r.run();
                  } catch (Throwable t) {
                  }
              }));
    }
    for (Future<?> f : fs) f.get();
    System.out.printf("%d passed, %d failed, %d skipped%n", pass.get(), fail.get(), skip.get());
    System.exit(fail.get() == 0 ? 0 : 1);
  }

  static ThreadFactory daemon() {
    return r -> {
      Thread t = new Thread(r);
      t.setDaemon(true);
      return t;
    };
  }
}
