//! From the parts of a text to values.

use super::{Event, Json, Members, VALUE};

/// Values of one content: a tree takes far more memory than its text.
#[doc(alias = "bound")]
const VALUES: usize = 50_000;

/// Builds values, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    open: Vec<Partial>,
    values: usize,
    bytes: usize,
}

/// An array or object that is not whole.
#[derive(Debug)]
enum Partial {
    List(Vec<Json>),
    Map { members: Members, name: String },
}

impl Builder {
    /// Takes a part; gives the value that it completes.
    ///
    /// # Errors
    /// A name stands twice in an object, or there are too many values.
    pub(crate) fn take(&mut self, event: Event) -> Result<Option<Json>, &'static str> {
        // The bound is that of one value: in a stream the element before has gone on.
        if self.open.is_empty() {
            self.values = 0;
            self.bytes = 0;
        }
        let value = match event {
            Event::BeginMap => {
                return self.begin(Partial::Map {
                    members: Members::new(),
                    name: String::new(),
                });
            }
            Event::BeginList => return self.begin(Partial::List(Vec::new())),
            Event::Name(text) => return self.name(text),
            Event::EndMap | Event::EndList => match self.open.pop() {
                Some(Partial::List(list)) => Json::List(list),
                Some(Partial::Map { members, .. }) => Json::Map(Box::new(members)),
                None => return Err("the wrong bracket"),
            },
            Event::Text(text) => {
                self.count(text.len())?;
                Json::Text(text)
            }
            Event::Number(number) => {
                self.count(number.len())?;
                Json::Number(number)
            }
            Event::Bool(switch) => {
                self.count(0)?;
                Json::Bool(switch)
            }
            Event::Null => {
                self.count(0)?;
                Json::Null
            }
        };
        Ok(self.add(value))
    }

    /// Bytes of memory that its values take.
    pub(crate) fn held(&self) -> usize {
        self.values * VALUE + self.bytes
    }

    /// Whether a value is not whole.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    fn begin(&mut self, partial: Partial) -> Result<Option<Json>, &'static str> {
        self.count(0)?;
        self.open.push(partial);
        Ok(None)
    }

    fn name(&mut self, text: String) -> Result<Option<Json>, &'static str> {
        self.bytes += text.len();
        if let Some(Partial::Map { members, name }) = self.open.last_mut() {
            // RFC 8259, section 4: programs differ in the one that they take.
            if members.contains_key(&text) {
                return Err("a name stands twice in an object");
            }
            *name = text;
        }
        Ok(None)
    }

    fn count(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.values += 1;
        self.bytes += bytes;
        match self.values > VALUES {
            true => Err("there are too many values"),
            false => Ok(()),
        }
    }

    fn add(&mut self, value: Json) -> Option<Json> {
        match self.open.last_mut() {
            None => return Some(value),
            Some(Partial::List(list)) => list.push(value),
            Some(Partial::Map { members, name }) => {
                members.insert(std::mem::take(name), value);
            }
        }
        None
    }
}
