//! What the policy wishes after each event, and what is done about it.

use super::Machine;
use crate::config::Allocation;
use crate::event::Action;
use crate::policy::{Policy, View, Wish};
use crate::present::Index;

impl<P: Policy, I: Index> Machine<P, I> {
    /// Asks the policy, and does what it wishes as far as the configuration allows, until there is
    /// nothing to do: each step leaves fewer idle nodes, or more that come.
    #[inline(always)]
    pub(super) fn settle(&mut self, actions: &mut Vec<Action>) {
        loop {
            self.look();
            let wish = self.policy.wish(&self.view);
            let coming = wish.coming.max(self.least_coming());
            if self.view.coming < coming && self.may_allocate() {
                self.allocate(actions);
            } else if let Some(slot) = self.excess(&wish) {
                self.release(slot, actions);
            } else {
                return;
            }
        }
    }

    #[inline(never)]
    fn allocate(&mut self, actions: &mut Vec<Action>) {
        let node = self.nodes.come();
        self.view.coming += 1;
        actions.push(Action::Allocate { node });
    }

    #[inline(never)]
    fn release(&mut self, slot: u32, actions: &mut Vec<Action>) {
        let node = self.nodes.leave(slot);
        self.view.ready -= 1;
        self.view.leaving += 1;
        actions.push(Action::Release { node });
    }

    /// Brings the view up to date with what is kept elsewhere.
    #[inline(always)]
    fn look(&mut self) {
        let (spent, fresh) = (self.nodes.spent(), self.nodes.fresh());
        // Most of the time nobody is idle, and nobody was.
        if spent | fresh | self.view.spent | self.view.fresh != 0 {
            self.look_at_idle(spent, fresh);
        }
        let owed = match self.config.allocation {
            _ if self.view.waiting == 0 => 0,
            Allocation::OnePerRequest => self.view.waiting,
            _ => self.view.waiting.div_ceil(u64::from(self.config.room)),
        };
        self.view.owed = u32::try_from(owed).unwrap_or(u32::MAX);
    }

    #[inline(never)]
    fn look_at_idle(&mut self, spent: u32, fresh: u32) {
        self.view.spent = spent;
        self.view.fresh = fresh;
        self.view.spent_since = self.nodes.spent_since();
        self.view.fresh_since = self.nodes.fresh_since();
    }

    /// What must come whatever the policy says: the least that is configured, and something for those
    /// who wait, who would wait for ever.
    #[inline]
    fn least_coming(&self) -> u32 {
        let View { ready, .. } = self.view;
        let hopeless = self.view.waiting > 0 && ready == 0;
        let missing = self.config.min_nodes.saturating_sub(ready);
        missing.max(u32::from(hopeless))
    }

    fn may_allocate(&self) -> bool {
        let View {
            coming,
            ready,
            leaving,
            max_nodes,
            ..
        } = self.view;
        let free = self.config.allocation != Allocation::OneAtATime || coming == 0;
        self.config.room > 0
            && free
            && coming + ready + leaving < max_nodes
            && self.nodes.can_come()
    }

    /// The idle node to release now.
    #[inline]
    fn excess(&self, wish: &Wish) -> Option<u32> {
        let View {
            spent,
            fresh,
            ready,
            ..
        } = self.view;
        if ready <= self.config.min_nodes {
            None
        } else if spent > wish.spent {
            self.nodes.first_spent()
        } else if fresh > wish.fresh {
            self.nodes.first_fresh()
        } else {
            None
        }
    }
}
