// Cases of POP by the Java remoting client, from 5.0 on, that wait for messages to come again.
// env: NAMESRV_ADDR, and those of Runner. args: parts of names of the cases to run (none = all).
import java.util.*;

public class PopSuite {
  static final Map<String, Runner.Case<Scene>> CASES = new LinkedHashMap<>();

  static {
    CASES.put("pop_acked", Popping::popAcked);
    CASES.put("pop_retry", Popping::popRetry);
    CASES.put("pop_consumer_gone", Popping::popConsumerGone);
    CASES.put("pop_mode_switch", Popping::popModeSwitch);
  }

  public static void main(String[] parts) throws Exception {
    Runner.run(CASES, Scene::new, 150, parts);
  }
}
