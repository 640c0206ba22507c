//! How our programs print. Rust ignores `SIGPIPE`, and `println!` to a pipe that nobody reads any
//! more (`| head`) panics; but who stopped reading knows that, so the program ends without a word.

use std::io::{self, ErrorKind, Write};
use std::process::exit;

/// Exit status when nobody reads standard output any more; that of `ullage` itself.
pub const CLOSED: i32 = 1;

/// Prints a line on standard output, at once. Where nobody reads it the process ends here, with
/// [`CLOSED`].
///
/// # Errors
/// It cannot be written for another reason: a full disk.
pub fn print(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(CLOSED),
        done => done,
    }
}

/// Tells a human, on standard error; whether anybody reads it is not the program's affair.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}
