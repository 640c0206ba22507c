//! Linux: what the agent is there besides the one that serves (a guest's init, a container's first
//! process), and how it starts, watches and ends programs.

mod attach;
mod capabilities;
mod cgroup;
pub mod children;
pub mod commands;
mod descendants;
pub mod ending;
pub mod ends;
mod enter;
mod exec;
pub mod facts;
pub mod files;
mod handover;
mod hide;
mod init;
mod link;
mod modules;
mod mounts;
pub mod output;
mod pause;
mod port;
mod root;
pub mod sample;
pub mod spawn;
mod supervisor;
pub mod sweep;
pub mod sys;
mod workspace;
