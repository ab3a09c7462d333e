// Compares what the same cases printed on two brokers, after masking what may differ.
// usage: Compared masks.txt FOLDER FOLDER   (files by the names of cases, as MqAdmin writes them)
// masks.txt says how a line is written. Ends with "N passed, N failed".
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;
import java.util.stream.*;

public class Compared {
  /** Names of cases, parted by blanks; `*` at the end of one stands for any rest. */
  record Cases(List<String> names) {
    static Cases parse(String text) {
      return new Cases(List.of(text.trim().split("\\s+")));
    }

    boolean hold(String name) {
      return names.stream()
          .anyMatch(
              it ->
                  it.endsWith("*")
                      ? name.startsWith(it.substring(0, it.length() - 1))
                      : it.equals(name));
    }
  }

  /** What is put in the place of a pattern; how often it was found is counted. */
  static class Mask {
    final String line;
    final Cases cases;
    final Pattern pattern;
    final String replacement;
    /** Whether it may hide nothing, because it is for what happens by chance. */
    final boolean optional;
    int found;

    Mask(String line, String[] parts, boolean optional) {
      this.line = line;
      this.optional = optional;
      this.cases = Cases.parse(parts[0].trim().split("\\s+", 2)[1]);
      this.pattern = Pattern.compile(parts[1].trim(), Pattern.MULTILINE);
      this.replacement = parts[2].trim();
    }

    String apply(String name, String text) {
      if (!cases.hold(name)) return text;
      Matcher matcher = pattern.matcher(text);
      StringBuilder masked = new StringBuilder();
      while (matcher.find()) {
        found++;
        matcher.appendReplacement(masked, replacement);
      }
      return matcher.appendTail(masked).toString();
    }
  }

  static final List<Mask> MASKS = new ArrayList<>();

  /** Cases whose lines come in any order. */
  static final List<Cases> SORTED = new ArrayList<>();

  /** Cases of which only the names that both print are compared. */
  static final List<Cases> COMMON = new ArrayList<>();

  static void read(Path masks) throws Exception {
    for (String line : Files.readAllLines(masks)) {
      if (line.isBlank() || line.startsWith("#")) continue;
      String[] parts = line.split("\\s\\|\\s");
      String[] head = parts[0].trim().split("\\s+", 2);
      if (parts[parts.length - 1].isBlank() || head.length < 2) throw new Exception("bad: " + line);
      switch (head[0]) {
        case "mask", "chance" -> {
          if (parts.length != 4) throw new Exception("mask CASES | PATTERN | TEXT | REASON: " + line);
          MASKS.add(new Mask(line, parts, head[0].equals("chance")));
        }
        case "sort" -> SORTED.add(Cases.parse(head[1]));
        case "common" -> COMMON.add(Cases.parse(head[1]));
        default -> throw new Exception("a line begins with mask, chance, sort or common: " + line);
      }
    }
  }

  /** Lines without what may differ, blanks one by one. */
  static List<String> masked(String name, Path file) throws Exception {
    String text = Files.readString(file);
    for (Mask mask : MASKS) text = mask.apply(name, text);
    Stream<String> lines =
        text.lines().map(line -> line.replaceAll("\\s+", " ").trim()).filter(it -> !it.isEmpty());
    if (SORTED.stream().anyMatch(cases -> cases.hold(name))) lines = lines.sorted();
    return lines.toList();
  }

  /** Lines of the one that the other has not, and the other way round. */
  static String difference(List<String> theirs, List<String> ours) {
    List<String> missing = new ArrayList<>(theirs);
    ours.forEach(missing::remove);
    List<String> more = new ArrayList<>(ours);
    theirs.forEach(more::remove);
    if (missing.isEmpty() && more.isEmpty()) return "    the same lines in another order";
    Stream<String> first = missing.stream().map(line -> "    - " + line);
    Stream<String> second = more.stream().map(line -> "    + " + line);
    return Stream.concat(first, second).limit(40).collect(Collectors.joining("\n"));
  }

  static SortedSet<String> names(Path folder) throws Exception {
    try (Stream<Path> files = Files.list(folder)) {
      return files.map(it -> it.getFileName().toString()).collect(Collectors.toCollection(TreeSet::new));
    }
  }

  /** Why a case fails, or null. */
  static String compare(String name, Path theirs, Path ours) throws Exception {
    if (!Files.exists(ours)) return "it ran on the first broker only";
    if (!Files.exists(theirs)) return "it ran on the second broker only";
    List<String> first = masked(name, theirs);
    List<String> second = masked(name, ours);
    if (COMMON.stream().anyMatch(cases -> cases.hold(name))) {
      Set<String> shared = named(first);
      shared.retainAll(named(second));
      if (shared.size() < 10) return "only " + shared.size() + " names are common";
      first = first.stream().filter(line -> shared.contains(nameOf(line))).toList();
      second = second.stream().filter(line -> shared.contains(nameOf(line))).toList();
    }
    return first.equals(second) ? null : "\n" + difference(first, second);
  }

  /** What stands before the `=` or `:` of a line. */
  static String nameOf(String line) {
    return line.split("[=:]", 2)[0].trim();
  }

  static Set<String> named(List<String> lines) {
    return lines.stream().map(Compared::nameOf).collect(Collectors.toCollection(TreeSet::new));
  }

  public static void main(String[] arguments) throws Exception {
    read(Paths.get(arguments[0]));
    Path theirs = Paths.get(arguments[1]);
    Path ours = Paths.get(arguments[2]);
    SortedSet<String> names = names(theirs);
    names.addAll(names(ours));
    int passed = 0;
    int failed = 0;
    for (String name : names) {
      String failure = compare(name, theirs.resolve(name), ours.resolve(name));
      if (failure == null) passed++;
      else failed++;
      if (failure != null) System.out.println("FAIL " + name + "  " + failure);
    }
    for (Mask mask : MASKS) {
      if (mask.found > 0 || mask.optional) continue;
      System.out.println("FAIL a mask that hides nothing: " + mask.line);
      failed++;
    }
    System.out.printf("%d passed, %d failed%n", passed, failed);
    System.exit(failed == 0 ? 0 : 1);
  }
}
