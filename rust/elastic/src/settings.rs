//! What a person wrote in a configuration, field by field, and what is wrong with it in plain words.

use core::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::{Map, Value};

/// A field that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadSetting {
    pub field: String,
    /// What was there, as it was written.
    pub value: String,
    pub allowed: String,
}

impl BadSetting {
    /// The field, what was found there, and what is allowed.
    #[must_use]
    pub fn new(field: &str, value: &impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}

impl fmt::Display for BadSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            allowed,
        } = self;
        write!(out, "{field} is {value}; allowed: {allowed}")
    }
}

impl core::error::Error for BadSetting {}

/// Of the names, as a list, and the one that was perhaps meant.
pub(crate) fn one_of(word: &str, names: &[&str]) -> String {
    let near = names
        .iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name));
    let nearest = near
        .min()
        .filter(|(distance, name)| distance * 2 < name.len());
    let list = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    match nearest {
        Some((_, name)) => format!("{list} (did you mean {name}?)"),
        None => list,
    }
}

/// The fields of a JSON object. Each is asked for by name; what nobody asked for is an error.
pub struct Settings<'a> {
    object: &'a Map<String, Value>,
    allowed: Vec<&'static str>,
}

impl<'a> Settings<'a> {
    /// # Errors
    /// If the value is no object; `name` says which.
    pub fn of(name: &str, value: &'a Value) -> Result<Self, BadSetting> {
        let allowed = Vec::new();
        match value {
            Value::Object(object) => Ok(Self { object, allowed }),
            _ => Err(BadSetting::new(name, value, "fields with their values")),
        }
    }

    /// A field as it is. None: it is absent, or null.
    pub fn any(&mut self, field: &'static str) -> Option<&'a Value> {
        self.allowed.push(field);
        self.object.get(field).filter(|value| !value.is_null())
    }

    /// A whole number.
    ///
    /// # Errors
    /// If there is something else.
    pub fn whole(
        &mut self,
        field: &'static str,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, BadSetting> {
        Ok(self.whole_or_none(field, range)?.unwrap_or(default))
    }

    /// A whole number, or none.
    ///
    /// # Errors
    /// If there is something else.
    pub fn whole_or_none(
        &mut self,
        field: &'static str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, BadSetting> {
        let Some(value) = self.any(field) else {
            return Ok(None);
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (least, most) = range.into_inner();
            let allowed = format!("a whole number from {least} to {most}");
            BadSetting::new(field, value, allowed)
        })
    }

    /// A number.
    ///
    /// # Errors
    /// If there is something else.
    pub fn number(
        &mut self,
        field: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
    ) -> Result<f64, BadSetting> {
        let Some(value) = self.any(field) else {
            return Ok(default);
        };
        let number = value.as_f64().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = range.into_inner();
            let allowed = format!("a number from {least} to {most}");
            BadSetting::new(field, value, allowed)
        })
    }

    /// A time in seconds, as nanoseconds.
    ///
    /// # Errors
    /// If there is something else.
    pub fn seconds(
        &mut self,
        field: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
    ) -> Result<u64, BadSetting> {
        let seconds = self.number(field, range, default)?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It saturates.
        Ok((seconds * 1e9).round() as u64)
    }

    /// One of several words; without the field, the first of them.
    ///
    /// # Errors
    /// If there is something else.
    pub fn choice<T: Copy>(
        &mut self,
        field: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, BadSetting> {
        let Some(value) = self.any(field) else {
            return Ok(choices[0].1);
        };
        let word = value.as_str().unwrap_or_default();
        let chosen = choices.iter().find(|(name, _)| *name == word);
        chosen.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            BadSetting::new(field, value, one_of(word, &names))
        })
    }

    /// # Errors
    /// If there is a field that nobody asked for.
    pub fn finish(self) -> Result<(), BadSetting> {
        let unknown = |field: &&String| !self.allowed.contains(&field.as_str());
        match self.object.keys().find(unknown) {
            Some(field) => {
                let allowed = one_of(field, &self.allowed);
                Err(BadSetting::new(field, &"no field here", allowed))
            }
            None => Ok(()),
        }
    }
}
