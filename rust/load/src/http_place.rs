//! `place`: the files that a server or a client needs, written without a shell; then, where one is
//! named, the program that needs them, in the place of this one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use ullage_common::Failure;

const CHUNK: usize = 1 << 16;

#[derive(Args)]
pub struct Options {
    /// A file with this text; folders on the way are made
    #[arg(long = "text", value_name = "FILE=TEXT", value_parser = text)]
    texts: Vec<(PathBuf, String)>,
    /// A file with so many bytes, as `http` expects them of `--document`
    #[arg(long = "document", value_name = "FILE=BYTES", value_parser = document)]
    documents: Vec<(PathBuf, u64)>,
    /// What to run then
    #[arg(last = true)]
    then: Vec<OsString>,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    for (path, text) in &options.texts {
        write(path, |file| file.write_all(text.as_bytes()))?;
    }
    for (path, length) in &options.documents {
        write(path, |file| Bytes::new(*length).copy(file))?;
    }
    let Some((program, arguments)) = options.then.split_first() else {
        return Ok(());
    };
    let error = Command::new(program).args(arguments).exec();
    Err(Failure::new(&program.to_string_lossy(), error))
}

fn write(path: &Path, fill: impl Fn(&mut File) -> io::Result<()>) -> Result<(), Failure> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| File::create(path))
        .and_then(|mut file| fill(&mut file))
        .map_err(|error| Failure::new(&path.to_string_lossy(), error))
}

/// The bytes of a document: at random, so that nothing on the way can compress or guess them, and
/// the same whenever it has this length.
pub struct Bytes {
    random: SmallRng,
    left: u64,
}

impl Bytes {
    pub fn new(length: u64) -> Self {
        Self {
            random: SmallRng::seed_from_u64(length),
            left: length,
        }
    }

    pub fn copy(mut self, into: &mut impl Write) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        while self.left > 0 {
            self.random.fill_bytes(&mut chunk);
            let part = usize::try_from(self.left).map_or(CHUNK, |left| left.min(CHUNK));
            into.write_all(&chunk[..part])?;
            self.left -= part as u64;
        }
        Ok(())
    }
}

fn text(argument: &str) -> Result<(PathBuf, String), String> {
    let (path, text) = argument.split_once('=').ok_or("FILE=TEXT")?;
    Ok((path.into(), text.into()))
}

fn document(argument: &str) -> Result<(PathBuf, u64), String> {
    let (path, length) = argument.split_once('=').ok_or("FILE=BYTES")?;
    let length = length.parse().map_err(|_| "not a number of bytes")?;
    Ok((path.into(), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(length: u64) -> Vec<u8> {
        let mut all = Vec::new();
        Bytes::new(length).copy(&mut all).unwrap();
        all
    }

    #[test]
    fn a_document_has_its_length_and_no_pattern() {
        for length in [0, 1, 1023, 65_536, 65_537, 1_000_000] {
            assert_eq!(bytes(length).len() as u64, length);
        }
        assert_eq!(bytes(100_000), bytes(100_000));
        assert_ne!(bytes(1000)[..], bytes(1001)[..1000]);
        let mut counts = [0u32; 256];
        for byte in bytes(1 << 20) {
            counts[usize::from(byte)] += 1;
        }
        // 4,096 of each are expected, with a standard deviation of 64.
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 6 * 64));
    }

    #[test]
    fn a_text_may_hold_anything_and_folders_are_made() {
        let place = std::env::temp_dir().join(format!("ullage-place-{}", std::process::id()));
        let file = place.join("a/b.conf");
        let argument = format!("{}=x = 1;\n$(y) 'z'", file.display());
        let options = Options {
            texts: vec![text(&argument).unwrap()],
            documents: vec![(place.join("www/5"), 5)],
            then: vec![],
        };
        run(&options).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "x = 1;\n$(y) 'z'");
        assert_eq!(fs::read(place.join("www/5")).unwrap(), bytes(5));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_is_no_file_and_length_is_refused() {
        assert!(text("only-a-name").is_err());
        assert!(document("a=b").is_err());
        assert!(document("a").is_err());
        assert!(document("a=-1").is_err());
    }
}
