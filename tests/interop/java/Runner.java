import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;

/**
 * Runs cases, some at a time: prints each with PASS, FAIL or SKIP, then "N passed, N failed, N
 * skipped", and ends the JVM. env: LEFT_OUT (names of cases), PAR (cases at a time), CASE_TIMEOUT_S.
 */
final class Runner<S extends Runner.Closing> {
  /** The client under test has no such call. */
  static class Skip extends RuntimeException {
    Skip(String m) {
      super(m);
    }
  }

  /** What a case started, to be shut down at its end. */
  static class Closing {
    final List<Runnable> closers = new CopyOnWriteArrayList<>();
  }

  interface Case<S> {
    void run(S scene) throws Exception;
  }

  private final Function<String, S> scenes;
  private final int seconds;
  private final ExecutorService inner = Executors.newCachedThreadPool(Runner::daemon);
  private final AtomicInteger passed = new AtomicInteger();
  private final AtomicInteger failed = new AtomicInteger();
  private final AtomicInteger skipped = new AtomicInteger();

  private Runner(Function<String, S> scenes, int seconds) {
    this.scenes = scenes;
    this.seconds = seconds;
  }

  /** Runs the cases whose name holds one of `parts`, or all; `seconds` is the time for one. */
  static <S extends Closing> void run(
      Map<String, Case<S>> cases, Function<String, S> scenes, int seconds, String[] parts)
      throws Exception {
    Runner<S> runner = new Runner<>(scenes, Integer.parseInt(env("CASE_TIMEOUT_S", "" + seconds)));
    Set<String> leftOut = Set.of(env("LEFT_OUT", "").split(","));
    ExecutorService turns =
        Executors.newFixedThreadPool(Integer.parseInt(env("PAR", "3")), Runner::daemon);
    List<Future<?>> all = new ArrayList<>();
    for (Map.Entry<String, Case<S>> entry : cases.entrySet()) {
      String name = entry.getKey();
      if (leftOut.contains(name)) {
        System.out.printf("%-24s             LEFT OUT%n", name);
        runner.skipped.incrementAndGet();
      } else if (parts.length == 0 || Arrays.stream(parts).anyMatch(name::contains)) {
        all.add(turns.submit(() -> runner.one(name, entry.getValue())));
      }
    }
    for (Future<?> each : all) each.get();
    int failed = runner.failed.get();
    System.out.printf(
        "%d passed, %d failed, %d skipped%n", runner.passed.get(), failed, runner.skipped.get());
    System.exit(failed == 0 ? 0 : 1);
  }

  private void one(String name, Case<S> body) {
    S scene = scenes.apply(name);
    long start = System.currentTimeMillis();
    String outcome = outcome(scene, body);
    long took = System.currentTimeMillis() - start;
    System.out.printf("%-24s %6d ms  %s%n", name, took, outcome);
    for (Runnable closer : scene.closers) {
      try {
        closer.run();
      } catch (Throwable late) {
        System.out.printf("%-24s while it was shut down: %s%n", name, late);
      }
    }
  }

  private String outcome(S scene, Case<S> body) {
    Future<?> running =
        inner.submit(
            () -> {
              body.run(scene);
              return null;
            });
    try {
      running.get(seconds, TimeUnit.SECONDS);
      passed.incrementAndGet();
      return "PASS";
    } catch (Throwable thrown) {
      running.cancel(true);
      Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
      if (cause instanceof Skip) {
        skipped.incrementAndGet();
        return "SKIP: " + cause.getMessage();
      }
      failed.incrementAndGet();
      String text = "FAIL: " + String.valueOf(cause).replaceAll("\\s+", " ");
      return text.length() > 300 ? text.substring(0, 300) : text;
    }
  }

  static String env(String name, String otherwise) {
    return Optional.ofNullable(System.getenv(name)).orElse(otherwise);
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true);
    return thread;
  }
}
