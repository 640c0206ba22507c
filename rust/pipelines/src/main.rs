//! `ullage-pipelines`: `dedup` and `ferret`, and what makes their inputs. Prints one JSON object on
//! standard output.

fn main() {}
