//! What a policy sees, what it wishes, and what it has to be.

use serde::Serialize;

use crate::settings::{BadSetting, Settings};

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
    pub coming: u32,
    /// Nodes that serve or could.
    pub ready: u32,
    /// Of these: nobody watches, but somebody did.
    pub spent: u32,
    /// Of these: nobody has watched yet.
    pub fresh: u32,
    pub leaving: u32,
    pub served: u64,
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
    #[must_use]
    #[inline]
    pub fn demand(&self) -> u64 {
        self.served + self.waiting
    }

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
