// SPDX-License-Identifier: Apache-2.0
//! As much of JSON as the golden cases need.

#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn parse(text: &str) -> Json {
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value();
        reader.space();
        assert_eq!(reader.at, text.len(), "text after the value");
        value
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub fn entries(&self) -> &[(String, Json)] {
        match self {
            Json::Object(entries) => entries,
            other => panic!("no object: {other:?}"),
        }
    }

    pub fn list(&self) -> &[Json] {
        match self {
            Json::List(list) => list,
            other => panic!("no list: {other:?}"),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }

    pub fn number(&self) -> f64 {
        match self {
            Json::Number(number) => *number,
            other => panic!("no number: {other:?}"),
        }
    }
}

impl std::ops::Index<&str> for Json {
    type Output = Json;
    fn index(&self, key: &str) -> &Json {
        self.get(key).unwrap_or_else(|| panic!("no {key} here"))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while self.bytes.get(self.at).map_or(false, u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> u8 {
        self.space();
        self.bytes[self.at]
    }

    fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == wanted;
        self.at += usize::from(found);
        found
    }

    fn until(&mut self, end: impl Fn(u8) -> bool) -> &str {
        let start = self.at;
        while self.at < self.bytes.len() && !end(self.bytes[self.at]) {
            self.at += 1;
        }
        std::str::from_utf8(&self.bytes[start..self.at]).unwrap()
    }

    fn text(&mut self) -> String {
        assert!(self.take(b'"'));
        let text = self.until(|byte| byte == b'"').to_string();
        assert!(!text.contains('\\'), "escapes are not read");
        self.at += 1;
        text
    }

    fn items<T>(&mut self, end: u8, read: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        self.at += 1;
        while !self.take(end) {
            assert!(items.is_empty() || self.take(b','), "no comma at {}", self.at);
            items.push(read(self));
        }
        items
    }

    fn value(&mut self) -> Json {
        match self.peek() {
            b'"' => Json::Text(self.text()),
            b'[' => Json::List(self.items(b']', Self::value)),
            b'{' => Json::Object(self.items(b'}', |reader| {
                let key = reader.text();
                assert!(reader.take(b':'));
                (key, reader.value())
            })),
            _ => match self.until(|byte| b",]} \n".contains(&byte)) {
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                number => Json::Number(number.parse().unwrap_or_else(|_| panic!("no number: {number}"))),
            },
        }
    }
}
