//! Implementation languages that a header names (`LanguageCode.java`).

/// The language of the sender. It is kept only to be shown in connection lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Language {
    /// Java, and ourselves: old clients know no name for Rust.
    #[default]
    Java,
    /// C++.
    Cpp,
    /// .NET.
    Dotnet,
    /// Python.
    Python,
    /// Delphi.
    Delphi,
    /// Erlang.
    Erlang,
    /// Ruby.
    Ruby,
    /// Anything else, also a code or a name that we do not know.
    Other,
    /// HTTP gateways.
    Http,
    /// Go.
    Go,
    /// PHP.
    Php,
    /// OpenMessaging.
    Oms,
    /// Rust.
    Rust,
    /// Node.js.
    NodeJs,
}

/// Every language with its byte in the binary header and its name in the JSON header.
const TABLE: [(Language, u8, &str); 14] = [
    (Language::Java, 0, "JAVA"),
    (Language::Cpp, 1, "CPP"),
    (Language::Dotnet, 2, "DOTNET"),
    (Language::Python, 3, "PYTHON"),
    (Language::Delphi, 4, "DELPHI"),
    (Language::Erlang, 5, "ERLANG"),
    (Language::Ruby, 6, "RUBY"),
    (Language::Other, 7, "OTHER"),
    (Language::Http, 8, "HTTP"),
    (Language::Go, 9, "GO"),
    (Language::Php, 10, "PHP"),
    (Language::Oms, 11, "OMS"),
    (Language::Rust, 12, "RUST"),
    (Language::NodeJs, 13, "NODE_JS"),
];

impl Language {
    /// The language of a byte of the binary header.
    pub fn from_code(code: u8) -> Self {
        TABLE.iter().find(|row| row.1 == code).map_or(Self::Other, |row| row.0)
    }

    /// The language of an enum name.
    pub fn from_name(name: &str) -> Self {
        TABLE.iter().find(|row| row.2 == name).map_or(Self::Other, |row| row.0)
    }

    /// Its byte in the binary header.
    pub fn code(self) -> u8 {
        TABLE.iter().find(|row| row.0 == self).map_or(7, |row| row.1)
    }

    /// Its enum name, as in the JSON header and in connection lists.
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).map_or("OTHER", |row| row.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_one_code_and_one_name() {
        for (language, code, name) in TABLE {
            assert_eq!(Language::from_code(code), language);
            assert_eq!(Language::from_name(name), language);
            assert_eq!((language.code(), language.name()), (code, name));
        }
        assert_eq!(Language::from_code(200), Language::Other);
        assert_eq!(Language::from_name("COBOL"), Language::Other);
    }
}
