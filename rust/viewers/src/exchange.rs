//! What a viewer says on its connection and hears there: to the front, and to its node.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use ullage_common::epoll::EpollFlags;

use crate::config::{Read, nanoseconds};
use crate::http::{self, Head, Word};
use crate::playback::Next;
use crate::session::{Outcome, Why};
use crate::shard::{HEAD, INBOX, Shard, now_ns};
use crate::sys::{self, READABLE, WATCHED, WRITABLE};
use crate::viewer::{self, Answer, Phase};

/// Where a chunk stands after everything that was there has been read.
enum Heard {
    More,
    Complete,
    Moved,
}

impl Shard<'_> {
    /// Ask the front for a node.
    pub fn ask(&mut self, index: u32) {
        let viewer = &mut self.viewers[index as usize];
        viewer.phase = Phase::Asking;
        viewer.redirects = 0;
        self.connect(index);
    }

    /// Tell the front that the session is over.
    pub fn announce(&mut self, index: u32) {
        let viewer = &mut self.viewers[index as usize];
        viewer.phase = Phase::Telling;
        viewer.asks = viewer.asks.saturating_add(1);
        self.connect(index);
    }

    pub fn fetch(&mut self, index: u32) {
        let viewer = &mut self.viewers[index as usize];
        viewer.phase = Phase::Fetching;
        let (from, to) = self.plan.range(viewer.player.fetched());
        viewer.left = to - from;
        if viewer.fd.is_none() {
            self.connect(index);
        } else if self.config.video.read == Read::Whole && viewer.headed {
            viewer.last_byte_ns = now_ns();
            self.timer(index, now_ns() + nanoseconds(self.config.limits.silence_s));
            self.readable(index);
        } else {
            self.say(index);
        }
    }

    /// To the front, or to its node, as the phase has it.
    pub fn connect(&mut self, index: u32) {
        self.close(index);
        let viewer = &mut self.viewers[index as usize];
        let to = match (&self.config.front, viewer.phase) {
            (Some(front), Phase::Asking | Phase::Telling) => front.address,
            _ => self.nodes.url(viewer.node).address,
        };
        let whole = self.config.video.read == Read::Whole && viewer.phase == Phase::Fetching;
        // What a node may send ahead of the video's rate is what the kernel keeps.
        let kept = whole.then(|| usize::try_from(self.plan.chunk_bytes()).unwrap_or(1 << 20));
        let source = self.nodes.source(to, viewer.client);
        let data = u64::from(viewer.generation) << 32 | u64::from(index);
        match sys::open(to, source, kept.map(|bytes| bytes.clamp(1 << 14, 1 << 20))) {
            Ok(fd) => {
                let added = self.poll.add(&fd, WATCHED, data);
                viewer.fd = Some(fd);
                viewer.connecting = true;
                if let Err(error) = added {
                    self.lacking(index, &error);
                } else {
                    self.timer(index, now_ns() + nanoseconds(self.config.limits.connect_s));
                }
            }
            Err(error) => self.broken(index, &error),
        }
    }

    /// Something about the viewer's connection.
    pub fn ready(&mut self, index: u32, flags: EpollFlags) {
        let viewer = &mut self.viewers[index as usize];
        if viewer.connecting && flags.intersects(WRITABLE | READABLE) {
            let Some(fd) = &viewer.fd else { return };
            if let Err(error) = sys::connected(fd.as_fd()) {
                return self.broken(index, &error);
            }
            viewer.connecting = false;
            let generation = viewer.generation;
            self.say(index);
            let viewer = &self.viewers[index as usize];
            if viewer.generation != generation || viewer.fd.is_none() {
                return;
            }
        }
        if flags.intersects(READABLE) {
            self.readable(index);
        }
    }

    /// Send the request that the phase has.
    fn say(&mut self, index: u32) {
        let viewer = &mut self.viewers[index as usize];
        viewer.headed = false;
        viewer.last_byte_ns = now_ns();
        let (text, client, limits) = (&mut self.request, viewer.client, &self.config.limits);
        let until = match (&self.config.front, viewer.phase) {
            (Some(front), Phase::Asking) => {
                viewer.was_placed = std::mem::replace(&mut viewer.placed, true);
                let patience_ns = nanoseconds(self.config.patience_s);
                let left_ns = (viewer.question_ns + patience_ns).saturating_sub(now_ns());
                http::ask(text, front, client, left_ns.div_ceil(1_000_000));
                now_ns() + left_ns + nanoseconds(limits.grace_s)
            }
            (Some(front), Phase::Telling) => {
                http::finished(text, front, client);
                now_ns() + nanoseconds(limits.silence_s)
            }
            _ => {
                let node = self.nodes.url(viewer.node);
                match self.config.video.read {
                    Read::Ranges => {
                        http::part(text, node, self.plan.range(viewer.player.fetched()));
                    }
                    Read::Whole => http::whole(text, node),
                }
                self.statistics.requests += 1;
                now_ns() + nanoseconds(limits.silence_s)
            }
        };
        let Some(fd) = &viewer.fd else { return };
        match sys::send(fd.as_raw_fd(), &self.request) {
            Ok(sent) if sent == self.request.len() => self.timer(index, until),
            // A request is far smaller than any socket's buffer: the other side reads nothing.
            Ok(_) => self.fault(index, Why::Silent),
            Err(error) => self.broken(index, &error),
        }
    }

    /// Read what is there, as far as it is wanted now.
    fn readable(&mut self, index: u32) {
        loop {
            let viewer = &self.viewers[index as usize];
            let result = match viewer.phase {
                Phase::Asking | Phase::Telling => self.heard(index),
                Phase::Fetching if viewer.headed => self.body(index),
                Phase::Fetching => self.began(index),
                Phase::Resting | Phase::Watching => return self.uncalled(index),
                _ => return,
            };
            match result {
                Ok(Heard::More) => {}
                Ok(Heard::Complete) => {
                    if self.completed(index) {
                        continue;
                    }
                    return;
                }
                Ok(Heard::Moved) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.broken(index, &error),
            }
        }
    }

    /// A head, and what came with it, when it has ended. Err: nothing more is there now.
    fn head(&mut self, index: u32) -> io::Result<Result<Head, Why>> {
        let viewer = &mut self.viewers[index as usize];
        let Some(fd) = &viewer.fd else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // A call costs more than copying a small chunk; a large one is thrown away where it lies.
        let chunk = viewer.phase == Phase::Fetching && self.config.video.read == Read::Ranges;
        let small = chunk && viewer.left <= (INBOX - HEAD) as u64;
        let most = if small { INBOX } else { HEAD };
        loop {
            let count = sys::receive(fd.as_raw_fd(), &mut self.inbox[..most])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            viewer.last_byte_ns = now_ns();
            let new = &self.inbox[..count];
            let parsed = if viewer.partial.is_empty() {
                http::head(new)
            } else {
                viewer.partial.extend_from_slice(new);
                http::head(&viewer.partial)
            };
            let so_far = viewer.partial.len().max(count);
            match parsed {
                Ok(None) if viewer.partial.is_empty() => viewer.partial = new.to_vec(),
                Ok(None) => {}
                Ok(Some(head)) => {
                    viewer.early = (so_far - head.size) as u64;
                    viewer.partial = Vec::new();
                    return Ok(Ok(head));
                }
                Err(why) => return Ok(Err(why)),
            }
        }
    }

    fn heard(&mut self, index: u32) -> io::Result<Heard> {
        let head = self.head(index)?;
        let viewer = &mut self.viewers[index as usize];
        if viewer.phase == Phase::Telling {
            match head {
                // 4xx: it does not know this viewer any more, so there is nothing to be told.
                Ok(head) if head.status < 500 => self.vacate(index),
                Ok(_) => self.fault(index, Why::ServerError),
                Err(why) => self.fault(index, why),
            }
            return Ok(Heard::Moved);
        }
        let undecided = head.as_ref().is_ok_and(|head| head.word == Word::Undecided);
        match head.map(viewer::answer) {
            Ok(Answer::Go(location)) => self.go(index, &location),
            Ok(Answer::Over(outcome, why)) => {
                let now = now_ns();
                let viewer = &mut self.viewers[index as usize];
                viewer.placed = undecided && viewer.was_placed;
                if let Some(trouble) = viewer.trouble {
                    // It had been served: its patience for a first node did not run out.
                    self.leave(index, Outcome::Failed, Some(trouble), now);
                } else {
                    viewer.answered_ns = now;
                    self.leave(index, outcome, Some(why), now);
                }
            }
            Ok(Answer::Broken(why)) | Err(why) => self.fault(index, why),
        }
        Ok(Heard::Moved)
    }

    fn go(&mut self, index: u32, location: &str) {
        let node = self.nodes.find(location);
        let now = now_ns();
        let viewer = &mut self.viewers[index as usize];
        viewer.redirects = viewer.redirects.saturating_add(1);
        match node {
            Ok(_) if viewer.redirects > self.config.limits.redirects => {
                self.fault(index, Why::RedirectLoop);
            }
            Ok(node) => {
                viewer.node = node;
                if viewer.answered_ns == 0 {
                    viewer.answered_ns = now;
                }
                self.close(index);
                self.fetch(index);
            }
            Err(why) => self.fault(index, why),
        }
    }

    fn began(&mut self, index: u32) -> io::Result<Heard> {
        let head = self.head(index)?;
        let now = now_ns();
        let ranges = self.config.video.read == Read::Ranges;
        let viewer = &mut self.viewers[index as usize];
        let range = ranges.then(|| self.plan.range(viewer.player.fetched()));
        let (closes, length) = match &head {
            Ok(head) => (head.closes, head.length),
            Err(_) => (true, None),
        };
        let answer = head.map(|head| viewer::video(head, range, &self.plan));
        match answer {
            Ok(None) => {}
            Ok(Some(Answer::Go(location))) => {
                self.go(index, &location);
                return Ok(Heard::Moved);
            }
            Ok(Some(Answer::Broken(why) | Answer::Over(_, why))) | Err(why) => {
                self.fault(index, why);
                return Ok(Heard::Moved);
            }
        }
        viewer.headed = true;
        viewer.kept = true;
        viewer.closes = closes;
        if viewer.first_byte_ns == 0 {
            viewer.first_byte_ns = now;
        }
        if length.is_none_or(|length| viewer.early > length) {
            self.fault(index, Why::Unasked);
            return Ok(Heard::Moved);
        }
        Ok(self.took(index, 0))
    }

    /// Bytes of the chunk came, beside those that came with the head.
    fn took(&mut self, index: u32, count: u64) -> Heard {
        let viewer = &mut self.viewers[index as usize];
        let early = viewer.early.min(viewer.left - count);
        viewer.early -= early;
        viewer.left -= count + early;
        viewer.bytes += count + early;
        if viewer.left == 0 {
            Heard::Complete
        } else {
            Heard::More
        }
    }

    fn body(&mut self, index: u32) -> io::Result<Heard> {
        let viewer = &mut self.viewers[index as usize];
        let Some(fd) = &viewer.fd else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if viewer.early > 0 {
            return Ok(self.took(index, 0));
        }
        let count = sys::discard(fd.as_raw_fd(), viewer.left)? as u64;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        viewer.last_byte_ns = now_ns();
        Ok(self.took(index, count))
    }

    /// The chunk is there. Whether the next one is to be read at once from the same answer.
    fn completed(&mut self, index: u32) -> bool {
        let now = now_ns();
        let viewer = &mut self.viewers[index as usize];
        let played = viewer.player.plays();
        if let Some(violation) = viewer.complete(&self.plan, now) {
            self.statistics.violations.record(violation.length_ns);
        }
        let begins = viewer.player.plays() && !played;
        let ranges = self.config.video.read == Read::Ranges;
        let closes = ranges && viewer.closes;
        let next = viewer.player.next(&self.plan);
        if begins {
            self.plays();
        }
        if closes {
            self.close(index);
        }
        match next {
            Next::End(at_ns) => {
                self.viewers[index as usize].phase = Phase::Watching;
                self.timer(index, at_ns);
                self.uncalled(index);
                if self.viewers[index as usize].phase == Phase::Watching {
                    self.close(index);
                }
                false
            }
            Next::At(at_ns) if at_ns > now => {
                self.viewers[index as usize].phase = Phase::Resting;
                self.timer(index, at_ns);
                false
            }
            Next::At(_) | Next::Now if ranges => {
                self.statistics.behind += u64::from(played);
                self.fetch(index);
                false
            }
            Next::At(_) | Next::Now => {
                let viewer = &mut self.viewers[index as usize];
                let (from, to) = self.plan.range(viewer.player.fetched());
                viewer.left = to - from;
                self.statistics.behind += u64::from(played);
                true
            }
        }
    }

    /// Nothing was asked for. Of one GET the rest waits; else the node has closed, or says too much.
    fn uncalled(&mut self, index: u32) {
        let viewer = &self.viewers[index as usize];
        if self.config.video.read == Read::Whole {
            return;
        }
        let Some(fd) = &viewer.fd else { return };
        match sys::receive(fd.as_raw_fd(), &mut self.inbox[..1]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(1..) => self.fault(index, Why::Unasked),
            _ => {
                // It need not keep a connection on which nothing is asked for.
                self.statistics.reopened += u64::from(viewer.phase == Phase::Resting);
                self.close(index);
            }
        }
    }
}
