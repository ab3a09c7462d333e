import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;

/**
 * What clients did and met, in the file {@code ledger}. Times are milliseconds since 1970.
 *
 * <pre>
 * sent KEY FATE FROM..TO ok | refused | unknown
 * got KEY FROM..TO CONSUMER TOPIC/QUEUE@OFFSET:POSITION TRIES BORN took | refused whole | spoilt
 * acked KEY FROM..TO ok | unknown
 * </pre>
 *
 * KEY is KIND.SENDER.NUMBER. FATE says what is to become of the message: {@code once}, {@code
 * commit}, {@code rollback}, {@code check-commit}, {@code check-rollback}, {@code after:MILLIS},
 * {@code at:TIME}, {@code refuse:TIMES}, {@code leave:MILLIS} or {@code dead}. It travels as a property, so that
 * whoever gets the message knows it.
 */
final class Noted {
  static final String FATE = "fate";
  static final Path STOP = Paths.get("stop");
  static final Path END = Paths.get("end");

  private final BufferedWriter out;

  Noted() throws IOException {
    out =
        Files.newBufferedWriter(
            Paths.get("ledger"), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }

  static long now() {
    return System.currentTimeMillis();
  }

  static byte[] body(String key) {
    long number = Long.parseLong(key.substring(key.lastIndexOf('.') + 1));
    String text = key + " " + "x".repeat((int) (number * 37 % 900));
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static boolean whole(String key, byte[] body) {
    return Arrays.equals(body, body(key));
  }

  void sent(String key, String fate, long from, String outcome) {
    line(String.format("sent %s %s %d..%d %s", key, fate, from, now(), outcome));
  }

  void got(String key, long from, String by, String place, String rest) {
    line(String.format("got %s %d..%d %s %s %s", key, from, now(), by, place, rest));
  }

  void acked(String key, long from, String outcome) {
    line(String.format("acked %s %d..%d %s", key, from, now(), outcome));
  }

  void line(String line) {
    try {
      synchronized (out) {
        out.write(line);
        out.newLine();
        out.flush();
      }
    } catch (IOException failed) {
      // A ledger with holes is none.
      failed.printStackTrace();
      Runtime.getRuntime().halt(3);
    }
  }

  static void sleep(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
    }
  }

  /** Waits for a file that the test makes. */
  static void await(Path path) {
    while (!Files.exists(path)) sleep(50);
  }
}
