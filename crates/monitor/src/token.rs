//! The token: what a caller from another host must show.
//!
//! ```text
//!  authorization: Bearer … ─┐
//!  cookie: thalweg_8090=…  ─┼─► the same, compared in constant time?
//!  ?token=…                ─┘
//! ```

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Fewest characters of a token.
const SHORTEST: usize = 16;

/// A secret that a caller must show. Never printed, never written.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Token(String);

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("(not shown)")
    }
}

impl Token {
    /// A token of these characters.
    pub fn new(text: &str) -> Token {
        Token(text.to_owned())
    }

    /// What is wrong with it, if anything: it must be long, and fit a header and a cookie as it is.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        match self.0.len() {
            length if length < SHORTEST => Some("has fewer than 16 characters; make it longer"),
            length if length > 256 => Some("has more than 256 characters; make it shorter"),
            _ if !self.0.bytes().all(is_plain) => {
                Some("has characters beside letters, digits and -._~+/=; leave them out")
            }
            _ => None,
        }
    }

    /// Whether `shown` is the token. The time this takes says nothing about where they differ.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        let token = self.0.as_bytes();
        let mut differs = u8::from(token.len() != shown.len());
        for (index, byte) in token.iter().enumerate() {
            let other = shown.get(index).copied().unwrap_or(!byte);
            differs |= std::hint::black_box(byte ^ other);
        }
        std::hint::black_box(differs) == 0
    }

    /// The cookie by which a browser shows it from now on. Cookies are shared by all ports of a host, so its name has the port.
    pub(crate) fn cookie(&self, port: u16, is_secure: bool) -> String {
        let secure = if is_secure { "; Secure" } else { "" };
        format!(
            "{}={}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict{secure}",
            cookie_name(port),
            self.0
        )
    }

    /// Whether a `cookie` header holds the token.
    pub(crate) fn is_in_cookies(&self, header: &[u8], port: u16) -> bool {
        let name = cookie_name(port);
        let shown = |pair: &[u8]| {
            let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(self.is(value))
        };
        header.split(|byte| *byte == b';').any(|pair| shown(pair) == Some(true))
    }
}

fn cookie_name(port: u16) -> String {
    format!("thalweg_{port}")
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cookie_shows_the_token_to_its_own_port_only() {
        let token = Token::new("0123456789abcdef");
        let cookie = token.cookie(8090, true);
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.ends_with("Secure")
        );
        let pair = cookie.split(';').next().expect("a pair");
        assert!(token.is_in_cookies(format!("a=b; {pair}; c=d").as_bytes(), 8090));
        assert!(!token.is_in_cookies(pair.as_bytes(), 8091));
        assert!(!token.is_in_cookies(b"thalweg_8090=; thalweg_8090", 8090));
    }

    #[test]
    fn a_token_is_not_printed() {
        assert!(!format!("{:?}", Token::new("0123456789abcdef")).contains("0123"));
    }

    proptest! {
        #[test]
        fn only_the_token_is_the_token(token in "[a-z]{1,20}", shown in "[a-z]{0,20}") {
            prop_assert_eq!(Token::new(&token).is(shown.as_bytes()), token == shown);
            prop_assert!(Token::new(&token).is(token.as_bytes()));
        }
    }
}
