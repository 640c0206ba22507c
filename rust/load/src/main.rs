//! `ullage-load`: connections (`connect`), requests (`http`) and ICMP probes (`icmp`), closed loop or
//! at a stated rate. Prints one JSON object on standard output.

fn main() {}
