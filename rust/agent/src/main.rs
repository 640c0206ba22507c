//! `ullage-agent`: the one static binary that ullage runs in every environment, native, container,
//! VM or cloud. It opens no port and reads no configuration; what it speaks is in
//! `docs/internals/agent-protocol.md`.
//!
//! What stands here is the same everywhere. `system` is what a system does in its own way: its
//! commands, the channel's ends, programs and their ends, files, facts. Linux and Windows have a
//! folder each, with the same names in it.

mod channel;
mod child;
mod credit;
mod facts;
mod files;
mod frame;
mod protocol;
mod responses;
mod sample;
mod serve;
mod shutdown;
#[cfg(unix)]
#[path = "linux/mod.rs"]
mod system;
#[cfg(windows)]
#[path = "windows/mod.rs"]
mod system;
mod temporary;
mod time;
mod timer;

fn main() {
    system::commands::run();
}
