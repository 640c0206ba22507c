//! When to have how many nodes: one file a policy, one line in the list at the end of this one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::settings::one_of;
pub use crate::settings::{BadSetting, Settings};

mod base;

pub use base::{Named, Policy, View, Wish};

/// Makes of the list the modules, `AnyPolicy` and the names.
macro_rules! policies {
    ($($file:ident::$policy:ident),+ $(,)?) => {
        $(mod $file; pub use $file::$policy;)+

        /// What plans can call a policy.
        pub const NAMES: &[&str] = &[$($policy::NAME),+];

        /// Any of the policies of the list.
        #[derive(Clone, Debug, PartialEq)]
        // Which one it is needs no working out from the fields.
        #[repr(u8)]
        enum Listed {
            $($policy($policy)),+
        }

        impl Listed {
            fn read(name: &str, settings: &mut Settings) -> Result<Option<Self>, BadSetting> {
                match name {
                    $($policy::NAME => $policy::read(settings).map(Self::$policy).map(Some),)+
                    _ => Ok(None),
                }
            }

            #[inline(always)]
            fn wish(&mut self, view: &View) -> Wish {
                match self {
                    $(Self::$policy(policy) => policy.wish(view)),+
                }
            }

            #[inline]
            fn wake_at(&self, view: &View) -> Option<u64> {
                match self {
                    $(Self::$policy(policy) => policy.wake_at(view)),+
                }
            }
        }
    };
}

/// A policy as a plan has it: its name and fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct AnyPolicy {
    listed: Listed,
    written: Value,
}

impl AnyPolicy {
    /// What a plan calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.written["name"].as_str().unwrap_or_default()
    }

    /// As it was written.
    #[must_use]
    pub fn written(&self) -> &Value {
        &self.written
    }
}

impl Policy for AnyPolicy {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "asked after each event")]
    fn wish(&mut self, view: &View) -> Wish {
        self.listed.wish(view)
    }

    #[inline]
    fn wake_at(&self, view: &View) -> Option<u64> {
        self.listed.wake_at(view)
    }
}

impl Default for AnyPolicy {
    fn default() -> Self {
        Self {
            listed: Listed::ElasticMovie(ElasticMovie::default()),
            written: json!({"name": ElasticMovie::NAME}),
        }
    }
}

impl TryFrom<Value> for AnyPolicy {
    type Error = BadSetting;

    fn try_from(written: Value) -> Result<Self, BadSetting> {
        let mut settings = Settings::of("policy", &written)?;
        let given = settings.any("name").cloned().unwrap_or_default();
        let name = given.as_str().unwrap_or_default();
        let listed = Listed::read(name, &mut settings)?;
        let unknown = || BadSetting::new("name", &given, one_of(name, NAMES));
        let listed = listed.ok_or_else(unknown)?;
        settings.finish()?;
        Ok(Self { listed, written })
    }
}

impl From<AnyPolicy> for Value {
    fn from(policy: AnyPolicy) -> Self {
        policy.written
    }
}

policies! {
    elastic_movie::ElasticMovie,
    hysteresis::Hysteresis,
    predictor::Predictor,
    spare::Spare,
    threshold::Threshold,
}
