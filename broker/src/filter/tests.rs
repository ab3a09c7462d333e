use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn compiled(text: &str) -> Compiled {
    Compiled::of("SQL92", text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> FilterError {
    Compiled::of("SQL92", text).expect_err(text)
}

/// The message that the table below asks about.
const MESSAGE: &str = "a\u{1}7\u{2}b\u{1}abc\u{2}d\u{1}3.5\u{2}t\u{1}true\u{2}TAGS\u{1}E\u{2}\
    n\u{1}-4\u{2}big\u{1}9000000000\u{2}quote\u{1}it's\u{2}u\u{1}\u{e9}\u{2}";

/// Outcomes of Java's classes, worked out from their source: what is not known or fails does not
/// pass.
const OUTCOMES: &[(&str, bool)] = &[
    // Numbers: the text is read as the kind of the number.
    ("a = 7", true),
    ("7 = a", true),
    ("a = 8", false),
    ("a <> 8", true),
    ("a = 7.0", true),
    ("a > 6", true),
    ("a >= 7", true),
    ("a < 7", false),
    ("a <= 7", true),
    ("6 < a", true),
    ("d > 3.4", true),
    ("d > 3", false), // "3.5" is no Integer: Java throws.
    ("NOT (d > 3)", false),
    ("d > 3 OR a = 7", false),
    ("a = 7 OR d > 3", true),
    ("d < 4e0", true),
    ("big > 8999999999", true),
    ("big > 1", false), // it is no Integer.
    ("big = 9000000000", true),
    ("n = -4", true),
    ("n < -3", true),
    ("n = - - -4", true),
    ("+a = +7", true),
    ("a = 7L", true),
    ("a > d", true), // two texts: as Double
    ("a > b", false),
    // Strings.
    ("b = 'abc'", true),
    ("'abc' = b", true),
    ("b = 'ABC'", false),
    ("b <> 'x'", true),
    ("quote = 'it''s'", true),
    ("b = a", false),
    ("b = 5", false), // "abc" is no Integer.
    ("b <> 5", false),
    ("a = '7'", true),
    // Truth values.
    ("t = TRUE", true),
    ("t = false", false),
    ("t <> FALSE", true),
    ("b = FALSE", true),
    ("TRUE = t", false), // Java casts the Boolean to a String.
    ("t", false),        // a text is no Boolean.
    ("NOT t", true),
    ("TRUE", true),
    ("FALSE", false),
    ("NULL", false),
    ("NOT NULL", false),
    ("TRUE AND NULL", false),
    ("TRUE OR NULL", true),
    ("NULL OR TRUE", true),
    ("FALSE AND NULL", false),
    ("NOT (FALSE AND NULL)", true),
    ("NOT (TRUE AND NULL)", false),
    // What is missing.
    ("x = 1", false),
    ("x <> 1", false),
    ("NOT (x = 1)", false),
    ("1 = x", false),
    ("1 <> x", true), // Java: known against unknown is false.
    ("x = y", true),  // Java: unknown equals unknown.
    ("x > 1", false),
    ("x IS NULL", true),
    ("x IS NOT NULL", false),
    ("a IS NULL", false),
    ("a IS NOT NULL", true),
    ("x IS NULL AND a = 7", true),
    ("x = 1 OR a = 7", true),
    ("x = 1 AND a = 7", false),
    // Ranges and lists.
    ("a BETWEEN 5 AND 9", true),
    ("a BETWEEN 7 AND 7", true),
    ("a BETWEEN 8 AND 9", false),
    ("a NOT BETWEEN 8 AND 9", true),
    ("a NOT BETWEEN 5 AND 9", false),
    ("x BETWEEN 5 AND 9", false),
    ("x NOT BETWEEN 5 AND 9", false),
    ("TAGS IN ('E')", true),
    ("TAGS IN ('A', 'E', 'F')", true),
    ("TAGS IN ('A')", false),
    ("TAGS NOT IN ('A')", true),
    ("x IN ('A')", false),
    ("x NOT IN ('A')", false),
    ("(TAGS IS NOT NULL AND TAGS IN ('E')) AND a > 6", true),
    // Texts in texts.
    ("b CONTAINS 'b'", true),
    ("b CONTAINS 'x'", false),
    ("b NOT CONTAINS 'x'", true),
    ("b CONTAINS ''", false),
    ("b NOT CONTAINS ''", false),
    ("x CONTAINS 'b'", false),
    ("x NOT CONTAINS 'b'", false),
    ("NOT (x CONTAINS 'b')", true),
    ("b STARTSWITH 'ab'", true),
    ("b STARTSWITH 'bc'", false),
    ("b NOT STARTSWITH 'bc'", true),
    ("b ENDSWITH 'bc'", true),
    ("b ENDSWITH 'ab'", false),
    ("b NOT ENDSWITH 'ab'", true),
    ("u = '\u{e9}'", true),
    // Precedence.
    ("a = 7 OR a = 8 AND b = 'x'", true),
    ("(a = 7 OR a = 8) AND b = 'x'", false),
    ("NOT a = 7", false), // (NOT a) = 7
    ("NOT (a = 8)", true),
    ("a = 7 = TRUE", true),
    // Words and blanks.
    ("a=7 and b='abc'", true),
    ("a = 7 -- the rest", true),
    ("/* first */ a /* then */ = 7", true),
    ("\ta\r\n=\n7", true),
    ("_x IS NULL AND $y IS NULL", true),
];

#[test]
fn outcomes_are_javas() {
    for (text, expected) in OUTCOMES {
        assert_eq!(compiled(text).passes(MESSAGE), *expected, "{text}");
    }
}

#[test]
fn what_is_no_expression_is_refused_with_its_place() {
    for text in [
        "",
        "a >< 3 AND",
        "a =",
        "= 3",
        "a = 3 b",
        "a == 3",
        "a != 3",
        "(a = 3",
        "a = 3)",
        "a IN ()",
        "a IN (3)",
        "a IN ('x'",
        "a IN 'x'",
        "3 IN ('x')",
        "a BETWEEN 3",
        "a BETWEEN 9 AND 5",
        "a BETWEEN 'x' AND 'y'",
        "a LIKE 'x'",
        "a CONTAINS b",
        "a CONTAINS 3",
        "a = NULL",
        "NULL = a",
        "TRUE = 3",
        "a > 'x'",
        "a > TRUE",
        "(a = 1) > 2",
        "'x'",
        "3",
        "-a",
        "a AND 3",
        "a = 'x",
        "a /* b",
        "a = 99999999999999999999",
        "a = 1e999",
        "a;",
        "a = #",
        "\u{e9} = 1",
        "a IS 3",
        "a NOT = 3",
        "a NOT NULL",
        "NOT",
        "AND",
        "a AND",
        "a OR OR b",
        "1 2",
        "- 'x' = 3 4",
    ] {
        let error = refused(text).to_string();
        assert!(error.starts_with("filter expression"), "{text}: {error}");
    }
    assert_eq!(
        refused("a >< 3 AND").to_string(),
        "filter expression has \"<\" at character 4 where a value is expected"
    );
    assert_eq!(
        Compiled::of("XPATH", "a").expect_err("no such type").to_string(),
        "filter type \"XPATH\" is unknown; TAG and SQL92 are served"
    );
}

/// F5 and S-19 of reliability: what a stranger sends costs little to refuse, and little to ask.
#[test]
fn s_19_hostile_expressions_are_refused_or_stay_cheap() {
    let deep = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    for text in [
        deep("(", "a = 1", ")", 100),
        deep("(", "a = 1", ")", 5_000),
        deep("NOT ", "a", "", 1_000),
        deep("- ", "1", "", 1_000) + " = a",
        deep("+", "1", "", 10_000) + " = a",
        format!("a{}", " = b".repeat(1_000)),
        format!("a{}", " IS NULL".repeat(1_000)),
        format!("a{}", " CONTAINS 'x'".repeat(500)),
    ] {
        assert!(matches!(refused(&text), FilterError::TooDeep { .. }), "{:.40}", text);
    }
    let long = format!("a IN ('{}')", "x".repeat(MAX_LENGTH));
    assert!(matches!(refused(&long), FilterError::TooLong { .. }));
    let many = vec!["a=1"; 1_500].join(" OR ");
    assert_eq!(refused(&many), FilterError::TooManyParts);

    // Ten kilobytes of list: found by its hash.
    let mut list = String::from("a IN ('0'");
    (1..1_400).for_each(|number| write!(list, ",'{number}'").expect("memory"));
    let list = compiled(&(list + ")"));
    assert!(list.passes("a\u{1}1399\u{2}"));
    assert!(!list.passes("a\u{1}1400\u{2}"));

    // Many searches in a long text: the message does not pass once its steps are used up, whatever
    // the expression says.
    let searches = vec!["a CONTAINS 'aab'"; 400].join(" OR ");
    let text = format!("a\u{1}{}\u{2}", "a".repeat(30_000));
    assert!(!compiled(&format!("{searches} OR TRUE")).passes(&text));
    assert!(compiled("a CONTAINS 'aab' OR TRUE").passes(&text));
}

#[test]
fn an_outdated_and_a_missing_expression_are_told_apart() {
    let filters = Filters::default();
    let find = |text: &str, version| filters.find(("g", "t"), ("SQL92", text, version));
    assert!(matches!(find("a =", 1), Found::Missing(_)));
    let Found::Filter(first) = find("a = 1", 2) else { panic!("it can be read") };
    let Found::Filter(again) = find("a = 1", 2) else { panic!("it can be read") };
    assert!(std::sync::Arc::ptr_eq(&first, &again), "it is read once");
    assert!(matches!(find("a = ", 3), Found::Outdated(_)));
    assert!(matches!(find("a = 2", 4), Found::Filter(_)));
    assert!(matches!(filters.find(("h", "t"), ("SQL92", "a =", 1)), Found::Missing(_)));
}

#[test]
fn expressions_that_are_kept_are_bounded() {
    let filters = Filters::default();
    let text = format!("a IN ('{}')", "x".repeat(10_000));
    for number in 0..500 {
        let topic = format!("t{number}");
        assert!(matches!(filters.find(("g", &topic), ("SQL92", &text, 1)), Found::Filter(_)));
    }
    assert!(filters.kept_bytes() <= 4 << 20, "{}", filters.kept_bytes());
}

/// An expression of truth values, and what it says of texts by the tables of three-valued logic.
#[derive(Debug, Clone)]
enum Plain {
    Is(&'static str, i32),
    Missing(&'static str),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

impl Plain {
    fn text(&self) -> String {
        match self {
            Self::Is(name, number) => format!("{name} = {number}"),
            Self::Missing(name) => format!("{name} IS NULL"),
            Self::Not(of) => format!("NOT ({})", of.text()),
            Self::And(left, right) => format!("({}) AND ({})", left.text(), right.text()),
            Self::Or(left, right) => format!("({}) OR ({})", left.text(), right.text()),
        }
    }

    fn truth(&self, values: &[(&str, Option<i32>)]) -> Option<bool> {
        let of = |name: &str| {
            values.iter().find(|(known, _)| *known == name).and_then(|(_, value)| *value)
        };
        match self {
            Self::Is(name, number) => of(name).map(|value| value == *number),
            Self::Missing(name) => Some(of(name).is_none()),
            Self::Not(inner) => inner.truth(values).map(|truth| !truth),
            Self::And(left, right) => match (left.truth(values), right.truth(values)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(left, right) => match (left.truth(values), right.truth(values)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }
}

fn plain() -> impl Strategy<Value = Plain> {
    let name = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let leaf = prop_oneof![
        (name(), 0..3).prop_map(|(name, number)| Plain::Is(name, number)),
        name().prop_map(Plain::Missing),
    ];
    leaf.prop_recursive(6, 48, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|of| Plain::Not(Box::new(of))),
            pair.clone().prop_map(|(left, right)| Plain::And(Box::new(left), Box::new(right))),
            pair.prop_map(|(left, right)| Plain::Or(Box::new(left), Box::new(right))),
        ]
    })
}

proptest! {
    #[test]
    fn logic_agrees_with_a_naive_evaluator(
        expression in plain(),
        a in proptest::option::of(0..3),
        b in proptest::option::of(0..3),
        c in proptest::option::of(0..3),
    ) {
        let values = [("a", a), ("b", b), ("c", c)];
        let mut message = String::new();
        for (name, value) in values {
            if let Some(value) = value {
                write!(message, "{name}\u{1}{value}\u{2}").expect("memory");
            }
        }
        let filter = compiled(&expression.text());
        prop_assert_eq!(filter.passes(&message), expression.truth(&values) == Some(true));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[ab0-9'=<>() ,.eE+\\-/*\\\\\u{e9}]{0,80}", message in ".{0,80}") {
        if let Ok(filter) = Compiled::of("SQL92", &text) {
            filter.passes(&message);
        }
    }

    #[test]
    fn no_words_make_it_panic(
        words in proptest::collection::vec(
            prop_oneof![
                Just("a"), Just("b"), Just("1"), Just("2.5"), Just("'x'"), Just("NOT"), Just("AND"),
                Just("OR"), Just("IN"), Just("("), Just(")"), Just(","), Just("BETWEEN"),
                Just("IS"), Just("NULL"), Just("TRUE"), Just("CONTAINS"), Just("ENDSWITH"),
                Just("="), Just("<>"), Just("<"), Just(">="), Just("-"), Just("+"),
            ],
            0..40,
        ),
    ) {
        if let Ok(filter) = Compiled::of("SQL92", &words.join(" ")) {
            filter.passes(MESSAGE);
        }
    }
}
