// Runs many mqadmin subcommands in one JVM and compares each one's output with a regular
// expression.
// usage: MqAdmin cases.txt   env: NAMESRV_ADDR BROKER_ADDR CLUSTER BROKER_NAME
// case line:  name | args... | expected regex (found anywhere, DOTALL) ; '!regex' = must not appear
// ; a result is also FAIL if the
// output holds an exception that the regex does not itself ask for. ${VAR} is replaced from env and
// by earlier '@VAR=regex(group)' captures.
import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.tools.command.MQAdminStartup;

public class MqAdmin {
  /**
   * command objects keep clients in fields, and are kept in a static list: clear it so that each
   * case is like a new process
   */
  static void fresh() throws Exception {
    java.lang.reflect.Field f = null;
    for (java.lang.reflect.Field x : MQAdminStartup.class.getDeclaredFields())
      if (List.class.isAssignableFrom(x.getType())) f = x;
    f.setAccessible(true);
    ((List<?>) f.get(null)).clear();
  }

  /** Consumes count messages, then shuts down, which commits the offsets. */
  static void consume(String nameServer, String group, String topic, int count) throws Exception {
    CountDownLatch left = new CountDownLatch(count);
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(nameServer);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(topic, "*");
    consumer.registerMessageListener(
        (MessageListenerConcurrently)
            (messages, context) -> {
              messages.forEach(message -> left.countDown());
              return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
    consumer.start();
    boolean all = left.await(40, TimeUnit.SECONDS);
    Thread.sleep(500);
    consumer.shutdown();
    if (!all) System.out.println(group + " did not consume " + left.getCount() + " of " + count);
  }

  public static void main(String[] a) throws Exception {
    Map<String, String> v = new HashMap<>(System.getenv());
    v.putIfAbsent("CLUSTER", "DefaultCluster");
    v.put("RUN", Long.toString(System.currentTimeMillis() % 100000000L, 36));
    v.put("NOW", "" + System.currentTimeMillis());
    List<String> only = Arrays.asList(a).subList(1, a.length);
    int pass = 0, fail = 0, per = Integer.parseInt(v.getOrDefault("CMD_TIMEOUT_S", "40"));
    PrintStream so = System.out, se = System.err;
    ExecutorService ex =
        Executors.newCachedThreadPool(
            r -> {
              Thread t = new Thread(r);
              t.setDaemon(true);
              return t;
            });
    System.setProperty("rocketmq.namesrv.addr", v.get("NAMESRV_ADDR"));
    Set<String> leftOut = Set.of(v.getOrDefault("LEFT_OUT", "").split(","));
    for (String line : Files.readAllLines(Paths.get(a[0]))) {
      if (line.isBlank() || line.startsWith("#")) continue;
      for (Map.Entry<String, String> e : v.entrySet())
        line = line.replace("${" + e.getKey() + "}", e.getValue());
      boolean step = line.startsWith("sleep ") || line.startsWith("consume ");
      if (step && !only.isEmpty()) continue;
      if (line.startsWith("sleep ")) {
        Thread.sleep(1000L * Integer.parseInt(line.substring(6).trim()));
        continue;
      }
      if (line.startsWith("consume ")) {
        String[] words = line.trim().split("\\s+");
        consume(v.get("NAMESRV_ADDR"), words[1], words[2], Integer.parseInt(words[3]));
        continue;
      }
      String[] f = line.split("\\s\\|\\s", 3);
      if (leftOut.contains(f[0].trim())) continue;
      if (!only.isEmpty() && only.stream().noneMatch(f[0]::contains)) continue;
      String want = f[2].trim(), cap = null;
      if (want.startsWith("@")) {
        int i = want.indexOf('=');
        cap = want.substring(1, i);
        want = want.substring(i + 1);
      }
      ByteArrayOutputStream b = new ByteArrayOutputStream();
      PrintStream ps = new PrintStream(b, true);
      System.setOut(ps);
      System.setErr(ps);
      String err = null;
      long t0 = System.currentTimeMillis();
      String[] args = f[1].trim().split("\\s+");
      for (int i = 0; i < args.length; i++) args[i] = args[i].replace("\\_", " ");
      fresh();
      Future<?> fu =
          ex.submit(
              () -> {
                MQAdminStartup.main0(args, null);
                return null;
              });
      try {
        fu.get(per, TimeUnit.SECONDS);
      } catch (TimeoutException e) {
        err = "timeout";
        fu.cancel(true);
      } catch (ExecutionException e) {
        err = "" + e.getCause();
      }
      System.setOut(so);
      System.setErr(se);
      String out = b.toString().replaceAll("(?m)^\\d\\d:\\d\\d:\\d\\d,\\d+ \\|-.*\\R", "");
      boolean neg = want.startsWith("!");
      Matcher m = Pattern.compile(neg ? want.substring(1) : want, Pattern.DOTALL).matcher(out);
      boolean hit = m.find(), ok = err == null && hit != neg;
      if (ok && !want.contains("xception") && out.contains("SubCommandException")) ok = false;
      if (ok && cap != null) v.put(cap, m.group(1));
      if (ok) pass++;
      else fail++;
      so.printf(
          "%s %-28s %5d ms%s%n",
          ok ? "PASS" : "FAIL",
          f[0].trim(),
          System.currentTimeMillis() - t0,
          ok
              ? ""
              : "  "
                  + (err != null ? err + " " : "")
                  + "want /"
                  + want
                  + "/ got: "
                  + out.replaceAll("\\s+", " ").replaceAll("^(.{0,400}).*", "$1"));
      if (System.getenv("DUMP") != null)
        Files.writeString(
            Paths.get(System.getenv("DUMP")),
            "=== " + f[0] + " : " + f[1] + "\n" + out + "\n",
            StandardOpenOption.CREATE,
            StandardOpenOption.APPEND);
    }
    so.printf("%d passed, %d failed%n", pass, fail);
    System.exit(fail == 0 ? 0 : 1);
  }
}
