// Runs commands of mqadmin in one JVM and compares what each prints with a regular expression.
// usage: MqAdmin cases.txt [part of a case's name...]
// env: NAMESRV_ADDR, BROKER_ADDR, CLUSTER, BROKER_NAME, LEFT_OUT (names of cases),
//   RUN (part of all names, else made from the time), OUTPUTS (folder that keeps what each case printed)
// cases.txt says how a line is written. Ends with "N passed, N failed".
import java.io.*;
import java.lang.reflect.Field;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.tools.command.MQAdminStartup;

public class MqAdmin {
  static final int TIMEOUT_SECONDS = 40;

  static final ExecutorService COMMANDS =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
          });

  /** What ${NAME} stands for: the environment, and what earlier cases captured. */
  static final Map<String, String> VARIABLES = new HashMap<>(System.getenv());

  /** One line of the file. */
  record Case(String name, String[] arguments, String capture, boolean absent, String pattern) {
    static Case parse(String line) {
      String[] columns = line.split("\\s\\|\\s", 3);
      String[] arguments = columns[1].trim().split("\\s+");
      for (int i = 0; i < arguments.length; i++) arguments[i] = arguments[i].replace("\\_", " ");
      String pattern = columns[2].trim();
      String capture = null;
      if (pattern.startsWith("@")) {
        int end = pattern.indexOf('=');
        capture = pattern.substring(1, end);
        pattern = pattern.substring(end + 1);
      }
      boolean absent = pattern.startsWith("!");
      if (absent) pattern = pattern.substring(1);
      return new Case(columns[0].trim(), arguments, capture, absent, pattern);
    }

    /** Why it failed, or null. */
    String run() throws Exception {
      StringBuilder trouble = new StringBuilder();
      String output = output(arguments, trouble);
      keep(name, output);
      Matcher matcher = Pattern.compile(pattern, Pattern.DOTALL).matcher(output);
      boolean found = matcher.find();
      boolean thrown = output.contains("SubCommandException") && !pattern.contains("xception");
      if (trouble.length() == 0 && found != absent && !thrown) {
        if (capture != null) VARIABLES.put(capture, matcher.group(1));
        return null;
      }
      String text = output.replaceAll("\\s+", " ");
      if (text.length() > 400) text = text.substring(0, 400);
      return trouble + "want /" + (absent ? "!" : "") + pattern + "/ got: " + text;
    }
  }

  /** Keeps what is to be compared with the same of another broker. */
  static void keep(String name, String output) throws IOException {
    String folder = VARIABLES.get("OUTPUTS");
    if (folder != null) Files.writeString(Paths.get(folder, name), output);
  }

  /** What a command prints, without log lines. */
  static String output(String[] arguments, StringBuilder trouble) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    PrintStream out = System.out;
    PrintStream err = System.err;
    PrintStream both = new PrintStream(bytes, true);
    System.setOut(both);
    System.setErr(both);
    forgetCommands();
    Future<?> command =
        COMMANDS.submit(
            () -> {
              running = Thread.currentThread();
              MQAdminStartup.main0(arguments, null);
              return null;
            });
    try {
      command.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException late) {
      trouble.append("no end within ").append(TIMEOUT_SECONDS).append(" s; ");
      command.cancel(true);
    } catch (ExecutionException failed) {
      trouble.append(failed.getCause()).append("; ");
    } finally {
      System.setOut(out);
      System.setErr(err);
    }
    return bytes.toString().replaceAll("(?m)^\\d\\d:\\d\\d:\\d\\d,\\d+ \\|-.*\\R", "");
  }

  /** The thread of the command that runs. */
  static volatile Thread running;

  /**
   * A client that shuts down waits for a thread of its own, which looks up every three seconds only:
   * it is woken, so that eighty commands do not take minutes.
   */
  static void wakeThoseWaitedFor() {
    Thread waker =
        new Thread(
            () -> {
              while (true) {
                try {
                  Thread.sleep(20);
                } catch (InterruptedException end) {
                  return;
                }
                Thread command = running;
                if (command != null && isInShutdown(command)) interruptEventThreads();
              }
            });
    waker.setDaemon(true);
    waker.start();
  }

  static boolean isInShutdown(Thread thread) {
    return Arrays.stream(thread.getStackTrace())
        .limit(8)
        .anyMatch(it -> it.getClassName().endsWith(".ServiceThread") && it.getMethodName().equals("shutdown"));
  }

  static void interruptEventThreads() {
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getName().startsWith("NettyEventExecutor")) thread.interrupt();
    }
  }

  /**
   * Commands keep clients in fields and are kept in a static list: cleared, each case is like a new
   * process.
   */
  static void forgetCommands() throws Exception {
    for (Field field : MQAdminStartup.class.getDeclaredFields()) {
      if (List.class.isAssignableFrom(field.getType())) {
        field.setAccessible(true);
        ((List<?>) field.get(null)).clear();
      }
    }
  }

  /** Consumes count messages, then shuts down, which commits the offsets. */
  static void consume(String group, String topic, int count) throws Exception {
    CountDownLatch left = new CountDownLatch(count);
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(VARIABLES.get("NAMESRV_ADDR"));
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

  /** A line that is no case. */
  static boolean step(String line) throws Exception {
    String[] words = line.trim().split("\\s+");
    switch (words[0]) {
      case "sleep" -> Thread.sleep(1000L * Integer.parseInt(words[1]));
      case "file" -> {
        String[] parts = line.trim().split("\\s+", 3);
        Files.writeString(Paths.get(parts[1]), parts[2]);
      }
      case "show" -> keep(words[1], Files.readString(Paths.get(words[2])));
      case "consume" -> consume(words[1], words[2], Integer.parseInt(words[3]));
      default -> {
        return false;
      }
    }
    return true;
  }

  public static void main(String[] arguments) throws Exception {
    VARIABLES.putIfAbsent("RUN", Long.toString(System.currentTimeMillis() % 100_000_000L, 36));
    System.setProperty("rocketmq.namesrv.addr", VARIABLES.get("NAMESRV_ADDR"));
    wakeThoseWaitedFor();
    List<String> only = Arrays.asList(arguments).subList(1, arguments.length);
    List<String> leftOut = List.of(VARIABLES.getOrDefault("LEFT_OUT", "").split(","));
    int passed = 0;
    int failed = 0;
    for (String line : Files.readAllLines(Paths.get(arguments[0]))) {
      if (line.isBlank() || line.startsWith("#")) continue;
      for (Map.Entry<String, String> variable : VARIABLES.entrySet()) {
        line = line.replace("${" + variable.getKey() + "}", variable.getValue());
      }
      String name = line.split("\\s\\|\\s", 2)[0].trim();
      boolean isCase = line.contains(" | ");
      boolean isFile = line.startsWith("file ");
      boolean isWanted = only.isEmpty() || isFile || isCase && only.stream().anyMatch(name::contains);
      if (!isWanted) continue;
      if (leftOut.contains(name) || step(line)) continue;
      long start = System.currentTimeMillis();
      String failure = Case.parse(line).run();
      if (failure == null) passed++;
      else failed++;
      System.out.printf(
          "%s %-28s %5d ms%s%n",
          failure == null ? "PASS" : "FAIL",
          name,
          System.currentTimeMillis() - start,
          failure == null ? "" : "  " + failure);
    }
    System.out.printf("%d passed, %d failed%n", passed, failed);
    System.exit(failed == 0 ? 0 : 1);
  }
}
