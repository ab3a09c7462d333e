//! Request and response codes (`RequestCode.java`, `ResponseCode.java`,
//! `RemotingSysResponseCode.java` of 5.5.0), with Java's names.

/// One line per code gives the constant, its entry in the list and its name.
macro_rules! codes {
    ($class:literal $($name:ident = $value:literal;)*) => {
        $(
            #[doc = concat!("Java's `", $class, ".", stringify!($name), "`.")]
            pub const $name: i32 = $value;
        )*

        /// Every code with its name, in ascending order of codes.
        pub const ALL: &[(i32, &str)] = &[$(($value, stringify!($name)),)*];

        /// The name of a code.
        pub fn name(code: i32) -> Option<&'static str> {
            let at = ALL.binary_search_by_key(&code, |entry| entry.0).ok()?;
            ALL.get(at).map(|entry| entry.1)
        }
    };
}

pub mod request;
pub mod response;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_so_that_names_are_found() {
        assert!(request::ALL.is_sorted_by(|a, b| a.0 < b.0));
        assert!(response::ALL.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(request::name(310), Some("SEND_MESSAGE_V2"));
        assert_eq!(request::name(200_079), Some("TRIGGER_LITE_DISPATCH"));
        assert_eq!(request::name(4711), None);
        assert_eq!(response::name(0), Some("SUCCESS"));
        assert_eq!(response::name(-1006), Some("RPC_TIME_OUT"));
    }
}
