//! `put` and `get`: files in and out, with their digest.
//!
//! A file that is put appears under its name only when it is whole: it is written to a new file in
//! the same directory and renamed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::channel::{Channel, Raw};
use crate::frame::{ID, Kind};
use crate::protocol::{self, Code, Failure};
use crate::responses::{Response, Transfer};
use crate::system;
use crate::temporary::Temporary;

const CHUNK: usize = 64 << 10;

/// A file that is on its way in.
pub struct Put {
    target: PathBuf,
    mode: u32,
    left: u64,
    size: u64,
    digest: Sha256,
    file: File,
    temporary: Temporary,
}

impl Put {
    pub fn begin(id: u32, request: &protocol::Put) -> Result<Self, Failure> {
        let target = absolute("put", &request.path)?;
        let directory = target
            .parent()
            .filter(|_| !request.path.ends_with(system::files::SEPARATORS));
        let directory =
            directory.ok_or_else(|| bad_path("put", &request.path, "is no file name"))?;
        let (temporary, file) = Temporary::create(directory, id).map_err(|error| {
            Failure::io("put: cannot write in", &directory.to_string_lossy(), &error)
        })?;
        let digest = Sha256::new();
        let (mode, size) = (request.mode & 0o7777, request.size);
        Ok(Self {
            target,
            mode,
            left: size,
            size,
            digest,
            file,
            temporary,
        })
    }

    /// Takes bytes; true when the file is complete.
    pub fn take(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            let message = format!("put: size: more than {} bytes came", self.size);
            return Err(Failure::new(Code::BadField, message));
        };
        self.file
            .write_all(bytes)
            .map_err(|error| self.failure("cannot write", &error))?;
        self.digest.update(bytes);
        self.left = left;
        Ok(left == 0)
    }

    /// Gives the complete file its name.
    pub fn finish(self) -> Result<Transfer, Failure> {
        system::files::set_mode(&self.file, self.mode)
            .and_then(|()| fs::rename(self.temporary.path(), &self.target))
            .map_err(|error| self.failure("cannot finish", &error))?;
        Ok(Transfer {
            size: self.size,
            sha256: hex(self.digest),
            truncated: None,
        })
    }

    fn failure(&self, doing: &str, error: &io::Error) -> Failure {
        Failure::io(
            &format!("put: {doing}"),
            &self.target.to_string_lossy(),
            error,
        )
    }
}

/// Sends a file; the answer.
pub fn get(channel: &Channel, id: u32, request: &protocol::Get) -> Response {
    match send_file(channel, id, request) {
        Ok(file) => Response::Done {
            id,
            file: Some(file),
        },
        Err(failure) => Response::error(Some(id), failure),
    }
}

fn send_file(channel: &Channel, id: u32, request: &protocol::Get) -> Result<Transfer, Failure> {
    let path = absolute("get", &request.path)?;
    let failed = |error: io::Error| Failure::io("get: cannot read", &request.path, &error);
    let file = system::files::open(&path);
    let mut file = file.map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(bad_path("get", &request.path, "is no regular file"));
    }
    let limit = request.limit.unwrap_or(u64::MAX);
    let mut digest = Sha256::new();
    let mut size = 0;
    let mut raw = Raw::new(CHUNK);
    while size < limit {
        let credit = channel.credit.take((CHUNK + ID) as u64);
        let room = credit.saturating_sub(ID as u64).min(limit - size);
        let read = raw.fill(usize::try_from(room).unwrap_or(CHUNK), |buffer| {
            file.read(buffer)
        });
        let count = *read.as_ref().unwrap_or(&0) as u64;
        channel.credit.put_back(if count > 0 {
            credit - count - ID as u64
        } else {
            credit
        });
        read.map_err(failed)?;
        if count == 0 {
            return Ok(Transfer {
                size,
                sha256: hex(digest),
                truncated: Some(false),
            });
        }
        digest.update(raw.bytes());
        size += count;
        channel.send_raw(Kind::Data, id, &mut raw);
    }
    let truncated = Some(file.read(&mut [0]).map_err(failed)? > 0);
    Ok(Transfer {
        size,
        sha256: hex(digest),
        truncated,
    })
}

/// Paths are absolute: the agent's working directory is nobody's business.
fn absolute(op: &str, path: &str) -> Result<PathBuf, Failure> {
    if !system::files::absolute(path) || path.contains('\0') {
        return Err(bad_path(op, path, "is no absolute path"));
    }
    Ok(PathBuf::from(path))
}

fn bad_path(op: &str, path: &str, problem: &str) -> Failure {
    Failure::new(Code::BadField, format!("{op}: path: {path:?} {problem}"))
}

fn hex(digest: Sha256) -> String {
    format!("{:x}", digest.finalize())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ullage-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("scratch directory");
        path
    }

    fn request(path: &Path, size: u64) -> protocol::Put {
        protocol::Put {
            path: path.to_string_lossy().into_owned(),
            mode: 0o750,
            size,
        }
    }

    #[test]
    fn a_put_appears_when_it_is_whole() {
        let directory = scratch("whole");
        let target = directory.join("target");
        let mut put = Put::begin(1, &request(&target, 13)).expect("begin");
        assert_eq!(put.take(b"thirteen"), Ok(false));
        assert!(!target.exists());
        assert_eq!(put.take(b" byte"), Ok(true));
        let done = put.finish().expect("finish");
        assert_eq!(done.size, 13);
        assert_eq!(fs::read(&target).expect("read"), b"thirteen byte");
        assert_eq!(fs::read_dir(&directory).expect("list").count(), 1);
    }

    #[test]
    fn too_many_bytes_leave_nothing() {
        let directory = scratch("many");
        let mut put = Put::begin(1, &request(&directory.join("target"), 3)).expect("begin");
        assert_eq!(
            put.take(b"four").expect_err("too many").code,
            Code::BadField
        );
        drop(put);
        assert_eq!(fs::read_dir(&directory).expect("list").count(), 0);
    }

    #[test]
    fn bad_paths_are_named() {
        for path in system::files::BAD_PATHS {
            let request = protocol::Put {
                path: (*path).into(),
                mode: 0,
                size: 0,
            };
            let failure = Put::begin(1, &request).err().expect(path);
            assert_eq!(failure.code, Code::BadField, "{path:?}");
        }
        let missing = scratch("missing").join("no").join("file");
        let failure = Put::begin(1, &request(&missing, 0)).err().expect("missing");
        let directory = missing.parent().expect("a parent").display();
        assert!(
            failure
                .message
                .starts_with(&format!("put: cannot write in {directory}: "))
        );
        assert_eq!(failure.code, Code::Io);
    }

    #[test]
    fn digests_are_hexadecimal() {
        assert_eq!(hex(Sha256::new()), EMPTY);
    }
}
