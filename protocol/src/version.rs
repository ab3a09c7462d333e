//! Version ordinals that every header carries (`MQVersion.java`).
//!
//! The number is the position in Java's enum: sixteen names of 3.0.0, then a snapshot and a release
//! for each version up to 5.9.9, then `HIGHER_VERSION`.

use std::borrow::Cow;

/// What we write into every header: 5.5.0.
pub const CURRENT: i32 = V5_5_0;

/// From here on brokers take part in pushed resets and status queries (codes 220, 221).
pub const V3_0_7_SNAPSHOT: i32 = 28;
/// From here on a registration body is a `RegisterBrokerBody`.
pub const V3_0_11: i32 = 37;
/// From here on consumers answer codes 307 and 309.
pub const V3_1_8_SNAPSHOT: i32 = 62;
/// From here on the broker honours `maxReconsumeTimes` of the request.
pub const V3_4_9: i32 = 121;
/// From here on clients believe that a broker filters by SQL92.
pub const V4_1_0_SNAPSHOT: i32 = 232;
/// From here on the name server answers routes in strict JSON.
pub const V4_9_4: i32 = 401;
/// From here on a compressed registration carries queue mappings.
pub const V5_0_0: i32 = 413;
/// Later clients understand `GO_AWAY`.
pub const V5_3_1: i32 = 475;
/// The last version whose slaves take each attribute of a topic for a change of it.
pub const V5_3_3: i32 = 479;
/// The version whose clients and brokers we were measured against.
pub const V5_5_0: i32 = 513;

/// First ordinal after the last known name.
const HIGHER_VERSION: i32 = 612;

/// The names of 3.0.0, which follow no rule.
const FIRST: [&str; 16] = [
    "V3_0_0_SNAPSHOT",
    "V3_0_0_ALPHA1",
    "V3_0_0_BETA1",
    "V3_0_0_BETA2",
    "V3_0_0_BETA3",
    "V3_0_0_BETA4",
    "V3_0_0_BETA5",
    "V3_0_0_BETA6_SNAPSHOT",
    "V3_0_0_BETA6",
    "V3_0_0_BETA7_SNAPSHOT",
    "V3_0_0_BETA7",
    "V3_0_0_BETA8_SNAPSHOT",
    "V3_0_0_BETA8",
    "V3_0_0_BETA9_SNAPSHOT",
    "V3_0_0_BETA9",
    "V3_0_0_FINAL",
];

/// Runs of releases: first ordinal, major, minor, first patch. Each release takes two ordinals.
const RUNS: [(i32, i32, i32, i32); 12] = [
    (16, 3, 0, 1),
    (46, 3, 1, 0),
    (66, 3, 2, 0),
    (86, 3, 3, 1),
    (104, 3, 4, 1),
    (122, 3, 5, 1),
    (140, 3, 6, 1),
    (158, 3, 7, 1),
    (176, 3, 8, 1),
    (194, 3, 9, 1),
    (212, 4, 0, 0),
    (412, 5, 0, 0),
];

/// The enum name of an ordinal, such as `V5_5_0`; `HIGHER_VERSION` past the end
/// (`MQVersion.getVersionDesc`). A negative ordinal, which Java refuses, reads as the first.
pub fn description(version: i32) -> Cow<'static, str> {
    if version >= HIGHER_VERSION {
        return Cow::Borrowed("HIGHER_VERSION");
    }
    let first = usize::try_from(version).unwrap_or(0);
    if let Some(name) = FIRST.get(first) {
        return Cow::Borrowed(name);
    }
    let (start, major, minor, patch) =
        RUNS.iter().rev().find(|run| run.0 <= version).copied().unwrap_or((16, 3, 0, 1));
    let release = (version - start) / 2;
    // From 4.0.0 on every minor has the patches 0 to 9, so the run goes on over minors.
    let (minor, patch) =
        if major >= 4 { (minor + release / 10, release % 10) } else { (minor, patch + release) };
    let snapshot = if (version - start) % 2 == 0 { "_SNAPSHOT" } else { "" };
    Cow::Owned(format!("V{major}_{minor}_{patch}{snapshot}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_javas() {
        let known = [
            (0, "V3_0_0_SNAPSHOT"),
            (15, "V3_0_0_FINAL"),
            (16, "V3_0_1_SNAPSHOT"),
            (28, "V3_0_7_SNAPSHOT"),
            (37, "V3_0_11"),
            (62, "V3_1_8_SNAPSHOT"),
            (79, "V3_2_6"),
            (121, "V3_4_9"),
            (137, "V3_5_8"),
            (211, "V3_9_9"),
            (213, "V4_0_0"),
            (233, "V4_1_0"),
            (401, "V4_9_4"),
            (409, "V4_9_8"),
            (413, "V5_0_0"),
            (479, "V5_3_3"),
            (493, "V5_4_0"),
            (513, "V5_5_0"),
            (611, "V5_9_9"),
            (612, "HIGHER_VERSION"),
            (9999, "HIGHER_VERSION"),
            (-1, "V3_0_0_SNAPSHOT"),
        ];
        for (ordinal, name) in known {
            assert_eq!(description(ordinal), name, "{ordinal}");
        }
    }
}
