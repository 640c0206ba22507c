//! Windows: each program runs in a job object of its own, which counts it and kills it with all that it
//! has started. All of these are in the agent's own, which ends with the agent, however that ends:
//! no supervisor is needed.

pub mod children;
pub mod commands;
pub mod ending;
pub mod ends;
pub mod facts;
pub mod files;
mod job;
pub mod output;
mod port;
pub mod sample;
pub mod spawn;
pub mod sweep;
pub mod sys;
mod usage;
mod wait;
