//! A synchronisation over whatever carries datagrams: UDP, TCP, a pipe.

use std::io;

use super::{Action, Client, Failure, LENGTH, Outcome, Rules, Token};

/// One more than any message has, so that a longer one is seen to be none.
pub(super) type Buffer = [u8; LENGTH + 1];

/// Whoever waits looks for so long without a break before it lets the scheduler wake it up, in
/// nanoseconds: the next message of a synchronisation comes sooner, and being woken up takes longer
/// than the message.
pub(super) const LOOK_NS: u64 = 200_000;
/// Between two looks of somebody awake there is no more than this, in nanoseconds: two system calls,
/// one of which copies a message. More is a thread that was taken off its core.
const AWAKE_NS: u64 = 5_000;

/// Carries messages to one server and back. Never blocks but in [`Channel::wait`].
pub trait Channel {
    /// Sends it, or loses it.
    ///
    /// # Errors
    /// If nothing will ever go this way again.
    fn send(&mut self, bytes: &[u8; LENGTH]) -> io::Result<()>;

    /// What has come, if anything.
    ///
    /// # Errors
    /// If nothing will ever come this way again.
    fn look(&mut self) -> io::Result<Option<&[u8]>>;

    /// Waits until something may have come, at most so long.
    ///
    /// # Errors
    /// As above.
    fn wait(&mut self, within_ns: u64) -> io::Result<()>;
}

/// When it was last seen that nothing is there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Eyes {
    /// By the own clock; none when they were closed since.
    empty_ns: Option<u64>,
}

impl Eyes {
    /// Nothing was there, now.
    pub fn empty(&mut self, now_ns: u64) {
        self.empty_ns = Some(now_ns);
    }

    /// They were closed.
    pub fn closed(&mut self) {
        self.empty_ns = None;
    }

    /// Whether what was found now came while they were open.
    pub fn awake(self, now_ns: u64) -> bool {
        self.empty_ns
            .is_some_and(|empty| now_ns.saturating_sub(empty) <= AWAKE_NS)
    }
}

/// Synchronises this clock with the server at the other end.
///
/// # Errors
/// If the channel is broken. That nobody answers is a [`Failure`].
pub fn synchronise(
    channel: &mut impl Channel,
    token: Token,
    rules: Rules,
    clock: impl Fn() -> u64,
) -> io::Result<Result<Outcome, Failure>> {
    let mut client = Client::new(rules, token, clock());
    let (mut eyes, mut since_ns) = (Eyes::default(), 0);
    loop {
        let now_ns = clock();
        match client.poll(now_ns) {
            Action::Done(done) => return Ok(done),
            Action::Send(bytes) => {
                channel.send(&bytes)?;
                eyes.closed();
                since_ns = now_ns;
            }
            Action::Wait { until_ns } => {
                if let Some(bytes) = channel.look()? {
                    let now_ns = clock();
                    client.receive(bytes, now_ns, eyes.awake(now_ns));
                } else if now_ns.saturating_sub(since_ns) < LOOK_NS {
                    eyes.empty(now_ns);
                } else {
                    channel.wait(until_ns.saturating_sub(now_ns))?;
                    eyes.closed();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awake_is_who_has_just_looked() {
        let mut eyes = Eyes::default();
        assert!(!eyes.awake(0));
        eyes.empty(1_000);
        assert!(eyes.awake(1_000 + AWAKE_NS) && !eyes.awake(1_001 + AWAKE_NS));
        eyes.closed();
        assert!(!eyes.awake(1_000));
    }
}
