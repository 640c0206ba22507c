//! The system calls of the event loop.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};
use ullage_common::epoll::EpollFlags;

/// Ready: to be read, or ended by the other side.
pub const READABLE: EpollFlags = EpollFlags::EPOLLIN
    .union(EpollFlags::EPOLLRDHUP)
    .union(EpollFlags::EPOLLHUP)
    .union(EpollFlags::EPOLLERR);
/// Ready: connected, to be written to.
pub const WRITABLE: EpollFlags = EpollFlags::EPOLLOUT;
/// All changes of a connection, each reported once.
pub const WATCHED: EpollFlags = EpollFlags::EPOLLIN
    .union(EpollFlags::EPOLLOUT)
    .union(EpollFlags::EPOLLRDHUP)
    .union(EpollFlags::EPOLLET);

/// A TCP connection that is being made; not blocking. `source` is where it comes from.
pub fn open(
    to: SocketAddrV4,
    source: Option<SocketAddrV4>,
    receive: Option<usize>,
) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    setsockopt(&fd, sockopt::TcpNoDelay, &true)?;
    if let Some(bytes) = receive {
        setsockopt(&fd, sockopt::RcvBuf, &bytes)?;
    }
    if let Some(source) = source {
        no_port_yet(&fd)?;
        bind(fd.as_raw_fd(), &SockaddrIn::from(source))?;
    }
    match connect(fd.as_raw_fd(), &SockaddrIn::from(to)) {
        Ok(()) | Err(nix::Error::EINPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// `bind` takes an address only; the port is chosen when it is known whom it connects to, so there
/// are as many for each destination.
fn no_port_yet(fd: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int, and so long.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            ptr::from_ref(&on).cast(),
            libc::socklen_t::try_from(size_of_val(&on)).expect("4"),
        )
    };
    checked(status).map(drop)
}

pub fn connected(fd: BorrowedFd) -> io::Result<()> {
    match nix::sys::socket::getsockopt(&fd, sockopt::SocketError)? {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

pub fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: at most as many bytes as the buffer has are written to it.
    let count = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    counted(count)
}

/// Throws away up to so many bytes, without copying them: tcp(7), `MSG_TRUNC`.
pub fn discard(fd: RawFd, most: u64) -> io::Result<usize> {
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(1 << 30);
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer.
    let count = unsafe { libc::recv(fd, ptr::null_mut(), most, libc::MSG_TRUNC) };
    counted(count)
}

pub fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: as many bytes as there are are read.
    let count = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    counted(count)
}

fn counted(count: isize) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

fn checked(status: libc::c_int) -> io::Result<libc::c_int> {
    if status < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(status)
    }
}

/// Runs before all ordinary processes, at the lowest real-time priority.
pub fn realtime() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters outlive the call.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) })
        .map(drop)
}

/// CPU time of this process, user and system, and its largest memory, seconds and bytes.
pub fn used() -> (f64, u64) {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    let Ok(usage) = usage else { return (0.0, 0) };
    #[expect(clippy::cast_precision_loss, reason = "microseconds of CPU time")]
    let s = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let peak = u64::try_from(usage.max_rss()).unwrap_or(0) * 1024;
    (s(usage.user_time()) + s(usage.system_time()), peak)
}
