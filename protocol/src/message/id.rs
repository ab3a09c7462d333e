//! Message ids (`MessageDecoder.createMessageId`, `MessageClientIDSetter.java`).

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::atomic::{AtomicU16, Ordering},
};

use bytes::{Buf, BufMut};

/// Why a text is no offset message id.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("message id {0:?} is not 32 (IPv4) or 56 (IPv6) hexadecimal digits of address and offset")]
pub struct IdError(String);

/// Bytes of the id with an IPv6 address.
const LONGEST_ID: usize = 16 + 4 + 8;

/// The broker's id of a stored message: address and commit-log offset in upper-case hexadecimal.
/// Tools connect to that address, so it must be one that clients reach.
pub fn offset_message_id(store_host: SocketAddr, physical_offset: i64) -> String {
    let mut bytes = [0; LONGEST_ID];
    let mut room = bytes.as_mut_slice();
    put_ip(store_host.ip(), &mut room);
    room.put_i32(store_host.port().into());
    room.put_i64(physical_offset);
    let length = LONGEST_ID - room.len();
    hex(bytes.get(..length).unwrap_or_default())
}

/// Address and commit-log offset of a broker's message id. Digits may be of either case.
///
/// A client's id (`UNIQ_KEY`) has the same length and gives a meaningless address, unless its port
/// field exceeds 65535.
///
/// # Errors
/// The text has another length, other characters, or a port field beyond 65535.
pub fn parse_offset_message_id(id: &str) -> Result<(SocketAddr, i64), IdError> {
    parse(id).ok_or_else(|| IdError(id.chars().take(64).collect()))
}

fn parse(id: &str) -> Option<(SocketAddr, i64)> {
    let bytes = unhex(id)?;
    let mut rest = bytes.as_slice();
    let ip = match bytes.len() {
        16 => IpAddr::V4(Ipv4Addr::from(rest.try_get_u32().ok()?)),
        28 => IpAddr::V6(Ipv6Addr::from(rest.try_get_u128().ok()?)),
        _ => return None,
    };
    let port = u16::try_from(rest.try_get_i32().ok()?).ok()?;
    Some((SocketAddr::new(ip, port), rest.try_get_i64().ok()?))
}

/// Makes client message ids (`UNIQ_KEY`). All that it needs of its surroundings is handed in.
#[derive(Debug)]
pub struct UniqueIds {
    prefix: String,
    counter: AtomicU16,
}

impl UniqueIds {
    /// A generator for one process: its address, its process id, and a number that tells it from
    /// others of the same process (Java: hash of the class loader).
    pub fn new(ip: IpAddr, pid: u16, salt: u32) -> Self {
        let mut bytes = Vec::with_capacity(22);
        put_ip(ip, &mut bytes);
        bytes.put_u16(pid);
        bytes.put_u32(salt);
        Self { prefix: hex(&bytes), counter: AtomicU16::new(0) }
    }

    /// The next id. `now` is in milliseconds since 1970; the id holds the part since the start of
    /// the month.
    pub fn next(&self, now: i64) -> String {
        let since = u32::try_from(now - month_start(now)).unwrap_or(0);
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut bytes = Vec::with_capacity(6);
        bytes.put_u32(since);
        bytes.put_u16(counter);
        format!("{}{}", self.prefix, hex(&bytes))
    }
}

/// The start of the month (UTC) of a time, both in milliseconds since 1970.
fn month_start(now: i64) -> i64 {
    const DAY: i64 = 86_400_000;
    let days = now.div_euclid(DAY);
    // Years from March on, so that the leap day is the last of a year; eras of 400 years.
    let shifted = days + 719_468;
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5;
    (days - day_of_month) * DAY
}

fn put_ip(ip: IpAddr, out: &mut impl BufMut) {
    match ip {
        IpAddr::V4(ip) => out.put_slice(&ip.octets()),
        IpAddr::V6(ip) => out.put_slice(&ip.octets()),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
    let letters = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    letters.for_each(|letter| text.push(letter.to_ascii_uppercase()));
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() > 56 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_either_family_round_trip() {
        let host = "192.168.1.10:10911".parse().unwrap();
        let id = offset_message_id(host, 1234);
        assert_eq!(id, "C0A8010A00002A9F00000000000004D2");
        assert_eq!(parse_offset_message_id(&id), Ok((host, 1234)));
        assert_eq!(parse_offset_message_id(&id.to_lowercase()), Ok((host, 1234)));
        let host = "[2001:db8::1]:10911".parse().unwrap();
        let id = offset_message_id(host, i64::MAX);
        assert_eq!(id.len(), 56);
        assert_eq!(parse_offset_message_id(&id), Ok((host, i64::MAX)));
    }

    #[test]
    fn other_texts_are_refused() {
        // The third is one of Go's client ids: its port field is no port.
        let texts = [
            "",
            "C0A8010A00002A9F00000000000004D",
            "393639326EA20000000093b362d80001",
            "+0A8010A00002A9F00000000000004D2",
            "\u{fc}\u{fc}",
        ];
        for text in texts {
            assert!(parse_offset_message_id(text).is_err(), "{text}");
        }
    }

    #[test]
    fn months_start_where_the_calendar_says() {
        // 2026-11-29 17:00:00, 2026-11-01; 2024-02-29 00:00, 2024-02-01; 1970-01-01.
        assert_eq!(month_start(1_795_971_600_000), 1_793_491_200_000);
        assert_eq!(month_start(1_709_164_800_000), 1_706_745_600_000);
        assert_eq!(month_start(0), 0);
        assert_eq!(month_start(951_782_400_000), 949_363_200_000);
    }

    #[test]
    fn unique_ids_differ_and_have_javas_length() {
        let ids = UniqueIds::new("127.0.0.1".parse().unwrap(), 42, 0xABCD);
        let first = ids.next(1_793_491_200_001);
        assert_eq!(first, "7F000001002A0000ABCD000000010000");
        assert_ne!(first, ids.next(1_793_491_200_001));
        let ids = UniqueIds::new("::1".parse().unwrap(), 42, 0xABCD);
        assert_eq!(ids.next(0).len(), 56);
    }
}
