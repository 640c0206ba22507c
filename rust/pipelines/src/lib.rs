//! dedup and ferret: two pipelines on threads, after PARSEC's of the same names, and what makes their
//! inputs.

pub mod chunking;
pub mod corpus;
pub mod dedup;
pub mod digest;
pub mod draw;
pub mod ferret;
pub mod frame;
pub mod manifest;
pub mod rabin;
pub mod source;
pub mod usage;
