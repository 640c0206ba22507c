//! When to have how many nodes: one file a policy, one line in the list at the end of this one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::settings::one_of;
pub use crate::settings::{BadSetting, Settings};

/// What a policy may look at: counts, at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct View {
    /// Now, nanoseconds.
    pub at: u64,
    /// Viewers that one node can serve.
    pub room: u32,
    /// Nodes at a time that are allowed.
    pub max_nodes: u32,
    /// Nodes that are kept, used or not.
    pub min_nodes: u32,
    /// Nodes being allocated.
    pub coming: u32,
    /// Nodes that serve or could.
    pub ready: u32,
    /// Of these: nobody watches, but somebody did.
    pub spent: u32,
    /// Of these: nobody has watched yet.
    pub fresh: u32,
    /// Nodes being released.
    pub leaving: u32,
    /// Viewers being served.
    pub served: u64,
    /// Viewers waiting.
    pub waiting: u64,
    /// Requests that have come, in all.
    pub requested: u64,
    /// Nodes that those who wait are owed: as many as they fill, or one each, as the application is
    /// configured.
    pub owed: u32,
    /// Since when the spent node has been so that has been so longest.
    pub spent_since: Option<u64>,
    /// The same of the fresh.
    pub fresh_since: Option<u64>,
}

impl View {
    /// Viewers that there are.
    #[must_use]
    #[inline]
    pub fn demand(&self) -> u64 {
        self.served + self.waiting
    }

    /// Nodes that serve somebody.
    #[must_use]
    #[inline]
    pub fn busy(&self) -> u32 {
        self.ready - self.spent - self.fresh
    }
}

/// What a policy wants. Nodes with viewers are never released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Nodes being allocated, at least. Begun as far as the configuration allows.
    pub coming: u32,
    /// Spent nodes to keep, at most. Of more, those are released that have been so longest.
    pub spent: u32,
    /// Fresh nodes to keep, at most; likewise.
    pub fresh: u32,
}

impl Wish {
    /// So many are to come, and so many idle ones to stay: fresh ones rather than spent ones.
    #[must_use]
    #[inline]
    pub fn idle(view: &View, coming: u32, idle: u32) -> Self {
        Self {
            coming,
            spent: idle.saturating_sub(view.fresh),
            fresh: idle,
        }
    }
}

/// Says how many nodes to have.
pub trait Policy {
    /// Asked after each event, and again after each allocation and release that follows from the
    /// answer, until nothing follows. The same view must give the same answer.
    fn wish(&mut self, view: &View) -> Wish;

    /// When it wants to be asked even though nothing happens, later than now. None: never.
    fn wake_at(&self, _view: &View) -> Option<u64> {
        None
    }
}

/// A policy that a plan can name.
pub trait Named: Policy + Sized {
    /// What a plan calls it.
    const NAME: &'static str;

    /// From its fields in a plan. Each has a default.
    ///
    /// # Errors
    /// If a field's value cannot be.
    fn read(settings: &mut Settings) -> Result<Self, BadSetting>;
}

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
