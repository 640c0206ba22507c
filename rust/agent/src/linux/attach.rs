//! `attach`: the far end of an instance's channel on another node. Whoever made the instance hands
//! over its agent's two pipes through a private socket; from then on this process stands between
//! them and its own stdin and stdout, which ssh carries to the controller.

use std::ffi::OsString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::protocol::MAGIC;
use crate::system::sys;

const WANTED: &str = "attach: SOCKET is wanted";
const PIPES: usize = 2;
const BUFFER: usize = 256 << 10;

/// Where the pipes are to be had.
#[derive(Debug, PartialEq)]
pub struct Attach {
    socket: PathBuf,
}

/// Reads `SOCKET`.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Attach, String> {
    let words: Vec<OsString> = args.into_iter().collect();
    match words.as_slice() {
        [socket] => Ok(Attach {
            socket: socket.into(),
        }),
        _ => Err(WANTED.into()),
    }
}

impl Attach {
    /// Carries bytes both ways until the agent ends, or nobody is left to hear it.
    pub fn go(&self) -> Result<(), String> {
        self.carry()
            .map_err(|error| sys::failed("attach", self.socket.display(), &error))
    }

    fn carry(&self) -> io::Result<()> {
        let [from_agent, to_agent] = receive(&UnixStream::connect(&self.socket)?)?;
        // The agent has said it on its first channel, to whoever started it; this is its second.
        sys::write_all(&io::stdout(), MAGIC)?;
        sys::start_thread("to-agent", move || {
            // Its end is the agent's end of file: that is `bye`. So is a failure.
            let _ = copy(&io::stdin(), &to_agent);
        })?;
        copy(&from_agent, &io::stdout())
    }
}

fn copy(from: &impl AsRawFd, to: &impl AsRawFd) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = read(from, &mut buffer)?;
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        write(to, bytes)?;
    }
}

/// As `sys::read`, and waits where the descriptor itself does not: whoever had it before may have
/// made it so.
fn read(from: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match sys::read(from, buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(from.as_raw_fd(), libc::POLLIN)?;
            }
            result => return result,
        }
    }
}

fn write(to: &impl AsRawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the buffer is valid for its length.
        let sent = unsafe { libc::write(to.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(sent) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(to.as_raw_fd(), libc::POLLOUT)?;
                }
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

fn wait(fd: i32, events: i16) -> io::Result<()> {
    let mut one = [libc::pollfd {
        fd,
        events,
        revents: 0,
    }];
    sys::poll(&mut one, -1)
}

/// The agent's two pipes: to read from, and to write to.
fn receive(stream: &UnixStream) -> io::Result<[OwnedFd; PIPES]> {
    let mut byte = 0_u8;
    let mut vector = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = [0_u64; 8];
    // SAFETY: all zeros is a valid empty header.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = mem::size_of_val(&control);
    let length = sys::retry(|| {
        // SAFETY: the header names buffers that live as long as the call.
        let length =
            unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    })?;
    let descriptors = descriptors(&header);
    let pipes: Result<[OwnedFd; PIPES], _> = descriptors.try_into();
    match pipes {
        Ok(pipes) if length == 1 => Ok(pipes),
        _ => Err(io::Error::other("no pipes were handed over")),
    }
}

/// What the message brought along; each is ours from now on.
fn descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut owned = Vec::new();
    // SAFETY: the kernel has filled the header in, and the CMSG macros stay within it.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_RIGHTS
            {
                let bytes = (*message).cmsg_len - libc::CMSG_LEN(0) as usize;
                let first: *const i32 = libc::CMSG_DATA(message).cast();
                for number in 0..bytes / mem::size_of::<i32>() {
                    let fd = std::ptr::read_unaligned(first.add(number));
                    owned.push(OwnedFd::from_raw_fd(fd));
                }
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    owned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_and_nothing_else() {
        let parsed = |words: &[&str]| parse(words.iter().map(OsString::from));
        let socket = "/run/x/a.sock".into();
        assert_eq!(parsed(&["/run/x/a.sock"]), Ok(Attach { socket }));
        assert!(parsed(&[]).is_err() && parsed(&["a", "b"]).is_err());
    }

    #[test]
    fn who_hands_nothing_over_is_refused() {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        sys::write_all(&theirs, b"x").expect("write");
        assert!(receive(&ours).is_err());
        drop(theirs);
        assert!(receive(&ours).is_err());
    }

    #[test]
    fn what_waits_in_a_pipe_that_does_not_block_is_copied_whole() {
        let (from, to) = sys::pipe().expect("pipe");
        let (end, out) = sys::pipe().expect("pipe");
        sys::set_nonblocking(&from).expect("flags");
        sys::set_nonblocking(&out).expect("flags");
        let sender = std::thread::spawn(move || {
            for _ in 0..40 {
                sys::write_all(&to, &[7; 10_000]).expect("write");
            }
        });
        let copier = std::thread::spawn(move || copy(&from, &out));
        let (mut total, mut buffer) = (0, vec![0; 4096]);
        loop {
            match sys::read(&end, &mut buffer).expect("read") {
                0 => break,
                length => total += length,
            }
        }
        sender.join().expect("sender");
        copier.join().expect("copier").expect("copy");
        assert_eq!(total, 400_000);
    }
}
