//! From JSON to a type, with the path of what does not fit.
//!
//! A deserializer of its own: one that is wrapped around another to note paths is compiled with every type twice, which was a fiftieth of the
//! program.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value as Json, map};

use crate::Problem;
use crate::path::{Step, child, element};

/// Reads JSON as this type.
///
/// # Errors
/// The first mistake, with its path from the whole on.
pub fn from_json<'de, T: Deserialize<'de>>(json: &'de Json) -> Result<T, Problem> {
    T::deserialize(Part(json)).map_err(|misfit| Problem::new(misfit.path(), misfit.0.reason))
}

/// A mistake on its way out of the parts that it is in.
#[derive(Debug)]
struct Misfit(Box<Found>);

#[derive(Debug)]
struct Found {
    /// The innermost step first.
    steps: Vec<Step>,
    reason: String,
}

impl Misfit {
    fn within(mut self, step: Step) -> Self {
        self.0.steps.push(step);
        self
    }

    fn path(&self) -> String {
        let steps = self.0.steps.iter().rev();
        steps.fold(String::new(), |path, step| match step {
            Step::Key(key) => child(&path, key),
            Step::Index(index) => element(&path, *index),
        })
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.reason)
    }
}

impl std::error::Error for Misfit {}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self(Box::new(Found {
            steps: Vec::new(),
            reason: reason.to_string(),
        }))
    }
}

/// A part of the whole.
#[derive(Clone, Copy)]
struct Part<'de>(&'de Json);

impl<'de> Deserializer<'de> for Part<'de> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => visitor.visit_u64(value),
                (_, Some(value), _) => visitor.visit_i64(value),
                (.., Some(value)) => visitor.visit_f64(value),
                _ => Err(de::Error::custom("the number is too large")),
            },
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(elements) => visitor.visit_seq(Elements {
                rest: elements.iter(),
                index: 0,
            }),
            Json::Object(entries) => visitor.visit_map(Entries::of(entries)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Json::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    /// A variant alone is its name; one with content is a map of one entry.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.0 {
            Json::String(name) => visitor.visit_enum(Variant {
                name,
                content: None,
            }),
            Json::Object(entries) if entries.len() == 1 => {
                let (name, content) = entries.iter().next().ok_or_else(|| wrong_variant(self.0))?;
                visitor.visit_enum(Variant {
                    name,
                    content: Some(content),
                })
            }
            _ => Err(wrong_variant(self.0)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string
        bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
    }
}

fn wrong_variant(json: &Json) -> Misfit {
    let found = match json {
        Json::Object(entries) => format!("a map of {} entries", entries.len()),
        other => other.to_string(),
    };
    de::Error::custom(format_args!(
        "expected a name, or a map of one, found {found}"
    ))
}

/// The elements of a list that are still to be read.
struct Elements<'de> {
    rest: std::slice::Iter<'de, Json>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misfit> {
        let Some(next) = self.rest.next() else {
            return Ok(None);
        };
        let index = self.index;
        self.index += 1;
        let read = seed.deserialize(Part(next));
        read.map(Some)
            .map_err(|misfit| misfit.within(Step::Index(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The entries of a map that are still to be read.
struct Entries<'de> {
    rest: map::Iter<'de>,
    /// Of the key that was read last.
    current: Option<(&'de str, &'de Json)>,
}

impl<'de> Entries<'de> {
    fn of(entries: &'de Map<String, Json>) -> Self {
        Self {
            rest: entries.iter(),
            current: None,
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.current = Some((key, value));
        let read = seed.deserialize(BorrowedStrDeserializer::new(key));
        read.map(Some)
            .map_err(|misfit: Misfit| misfit.within(Step::Key(key.clone())))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let (key, value) = self
            .current
            .take()
            .ok_or_else(|| de::Error::custom("a value was asked for before its key"))?;
        let read = seed.deserialize(Part(value));
        read.map_err(|misfit| misfit.within(Step::Key(key.to_owned())))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// A variant of an enumeration.
struct Variant<'de> {
    name: &'de str,
    content: Option<&'de Json>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Misfit;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Misfit> {
        let name: BorrowedStrDeserializer<'de, Misfit> = BorrowedStrDeserializer::new(self.name);
        Ok((seed.deserialize(name.into_deserializer())?, self))
    }
}

impl<'de> Variant<'de> {
    fn content(&self) -> Result<Part<'de>, Misfit> {
        let content = self.content.map(Part);
        content.ok_or_else(|| de::Error::custom(format_args!("`{}` needs a value", self.name)))
    }

    fn place<T>(&self, read: Result<T, Misfit>) -> Result<T, Misfit> {
        read.map_err(|misfit| misfit.within(Step::Key(self.name.to_owned())))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Misfit;

    fn unit_variant(self) -> Result<(), Misfit> {
        match self.content {
            None | Some(Json::Null) => Ok(()),
            Some(_) => self.place(Err(de::Error::custom(format_args!(
                "`{}` takes no value",
                self.name
            )))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Misfit> {
        self.place(seed.deserialize(self.content()?))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.place(self.content()?.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.place(self.content()?.deserialize_any(visitor))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::from_json;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        name: String,
        #[serde(default)]
        sizes: BTreeMap<String, Vec<u8>>,
        kind: Option<Kind>,
        part: Option<Box<Self>>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
        Of(i32),
        Both { least: f64 },
    }

    fn path(json: serde_json::Value) -> String {
        from_json::<Whole>(&json).unwrap_err().path
    }

    #[test]
    fn all_shapes_are_read() {
        let json = json!({ "name": "a", "sizes": { "b": [1, 255] }, "part": { "name": "c", "kind": { "of": -3 } } });
        let whole: Whole = from_json(&json).unwrap();
        assert_eq!(whole.sizes["b"], [1, 255]);
        assert_eq!(whole.part.unwrap().kind, Some(Kind::Of(-3)));

        let kind = |json| from_json::<Kind>(&json).unwrap();
        assert_eq!(kind(json!("plain")), Kind::Plain);
        assert_eq!(kind(json!({ "plain": null })), Kind::Plain);
        assert_eq!(
            kind(json!({ "both": { "least": 0.5 } })),
            Kind::Both { least: 0.5 }
        );
    }

    #[test]
    fn a_mistake_has_its_path() {
        assert_eq!(
            path(json!({ "name": "a", "sizes": { "b.c": [1, 256] } })),
            r#"sizes["b.c"][1]"#
        );
        assert_eq!(
            path(json!({ "name": "a", "part": { "name": 1 } })),
            "part.name"
        );
        assert_eq!(
            path(json!({ "name": "a", "part": { "nane": "" } })),
            "part.nane"
        );
        assert_eq!(path(json!({ "name": "a", "part": {} })), "part");
        assert_eq!(
            path(json!({ "name": "a", "kind": { "plain": 1 } })),
            "kind.plain"
        );
        assert_eq!(
            path(json!({ "name": "a", "kind": { "of": [] } })),
            "kind.of"
        );
        assert_eq!(
            path(json!({ "name": "a", "kind": { "of": 1, "plain": null } })),
            "kind"
        );
        assert_eq!(path(json!({ "name": "a", "kind": "of" })), "kind");
        assert_eq!(path(json!([])), "");
    }
}
