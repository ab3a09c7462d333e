//! docs/protocol-status.md, made from the table of routes.

use std::fmt::Write as _;

use protocol::code::request;

use crate::routes::{Does, ROUTES, Serves};

/// Codes without which no client sends and receives.
const FIRST: &[i32] = &[10, 11, 14, 15, 29, 30, 31, 34, 35, 36, 38, 40, 310, 320, 361];

/// Codes that clients' further features and the everyday commands of mqadmin need.
const SECOND: &[i32] = &[
    12, 17, 21, 25, 26, 28, 32, 33, 37, 39, 41, 42, 46, 200, 201, 202, 203, 204, 207, 208, 215,
    220, 221, 222, 223, 300, 303, 305, 307, 309, 315, 317, 324, 325, 326, 328, 343, 345, 351, 352,
    907,
];

/// The whole text of docs/protocol-status.md.
#[must_use]
pub fn protocol_status() -> String {
    let mut text = String::from(HEAD);
    for route in ROUTES {
        let tier = match route.code {
            code if FIRST.contains(&code) => 1,
            code if SECOND.contains(&code) => 2,
            _ => 3,
        };
        let (code, name) = (route.code, request::name(route.code).unwrap_or("?"));
        let (state, by) = match &route.does {
            Does::Serve { serves, .. } => ("served", who(*serves)),
            Does::Decline { reason, for_good: true } => ("declined for good", *reason),
            Does::Decline { reason, for_good: false } => ("declined", *reason),
        };
        if writeln!(text, "| {code} | {name} | {tier} | {state} | {by} |").is_err() {
            debug_assert!(false, "a String takes every text");
        }
    }
    text
}

fn who(serves: Serves) -> &'static str {
    match serves {
        Serves::Master => "the master; a follower passes it on",
        Serves::Reader => "the master; a follower with slaveReadEnable",
        Serves::AnyRole => "any role, from its own tables",
    }
}

const HEAD: &str = "# Request codes of a broker

Made from `broker/src/routes.rs` by `cargo xtask docs`.

Tier 1: no client sends and receives without it. Tier 2: further features of clients, everyday commands of mqadmin. Tier 3:
the rest. A code that is declined, or unknown, is answered REQUEST_CODE_NOT_SUPPORTED (3) with the reason; without a leader,
what is not served in any role is answered SERVICE_NOT_AVAILABLE (14).

| code | name | tier | state | by whom, or why not |
|---|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_in_step_with_the_routes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/protocol-status.md");
        let written = std::fs::read_to_string(path).expect("docs/protocol-status.md");
        let made = protocol_status();
        let differs = made.lines().zip(written.lines()).find(|(made, written)| made != written);
        assert!(
            written == made,
            "stale: run `cargo xtask docs`; first line that differs: {differs:?}"
        );
    }

    #[test]
    fn tiers_hold_codes_that_there_are() {
        for code in FIRST.iter().chain(SECOND) {
            assert!(ROUTES.iter().any(|route| route.code == *code), "{code} is no code");
        }
        assert!(!FIRST.iter().any(|code| SECOND.contains(code)), "a code has one tier");
    }
}
