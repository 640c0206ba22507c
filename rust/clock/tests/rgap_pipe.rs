//! RGAP over pairs of files, with this machine's clock on both sides, and how messages are found in a
//! stream.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;
use ullage_clock::rgap::pipe::Pipe;
use ullage_clock::rgap::{Body, Channel, LENGTH, Message, Server, Token};

mod rgap_common;

use rgap_common::{TOKEN, is_zero, now, once, request};

/// Serves at one end of this pair, synchronises at the other, and closes.
fn through([there, here]: [Pipe; 2]) {
    let (mut there, mut here) = (there, here);
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let mut server = Server::new(TOKEN);
            let ended = there.serve(&mut server, now, &AtomicBool::new(false));
            (ended, server.served())
        });
        let outcome = once(&mut here);
        is_zero(&outcome);
        drop(here);
        let (ended, served) = serving.join().expect("served");
        ended.expect("closed");
        assert_eq!(served.answered, u64::from(outcome.counts.sent));
    });
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = io::pipe().expect("pipe");
    (reader.into(), writer.into())
}

fn socketpair() -> [OwnedFd; 2] {
    let (near, far) = UnixStream::pair().expect("pair");
    [near.into(), far.into()]
}

/// Both ways over one file.
fn both_ways(file: OwnedFd) -> Pipe {
    Pipe::new(file.try_clone().expect("clone"), file).expect("files")
}

#[test]
fn through_two_pipes() {
    let ((to, from), (back_to, back_from)) = (pipe(), pipe());
    through(
        [(to, back_from), (back_to, from)].map(|(to, from)| Pipe::new(to, from).expect("pipes")),
    );
}

#[test]
fn through_a_pair_of_sockets() {
    through(socketpair().map(both_ways));
}

/// A terminal would echo what it gets and swallow some bytes, unless it is raw.
#[test]
fn through_a_terminal() {
    let (mut master, mut slave) = (-1, -1);
    let nothing = std::ptr::null_mut();
    // SAFETY: two places for numbers; no name, mode or size is asked for.
    let failed = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            nothing,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    assert_eq!(failed, 0);
    // SAFETY: both were just opened, and nobody else has them.
    let ends = [master, slave].map(|file| unsafe { OwnedFd::from_raw_fd(file) });
    through(ends.map(both_ways));
}

#[test]
fn a_stranger_at_the_other_end_of_a_pipe() {
    let [there, here] = socketpair();
    let mut stranger = File::from(here);
    stranger
        .write_all(&request(Token([0; 16]), 1))
        .expect("write");
    let mut server = Server::new(TOKEN);
    let ended = both_ways(there).serve(&mut server, now, &AtomicBool::new(false));
    assert_eq!(
        ended.expect_err("foreign").kind(),
        ErrorKind::PermissionDenied
    );
    assert_eq!((server.served().answered, server.served().foreign), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    /// However a stream is cut into pieces, the messages are the same, until the first that is none.
    #[test]
    fn cut_at_any_place(
        messages in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<[u8; 16]>()), 0..6),
        garbage in proptest::collection::vec(any::<u8>(), 0..100),
        cuts in proptest::collection::vec(1..200_usize, 1..12),
    ) {
        let frames: Vec<[u8; LENGTH]> = messages.iter().map(|(sequence, t1, token)| {
            Message { token: Token(*token), sequence: *sequence, t1: *t1, body: Body::Request }.encode()
        }).collect();
        let mut bytes = [frames.concat(), garbage.clone()].concat();
        let [there, here] = socketpair();
        let (mut writer, mut reader) = (File::from(there), both_ways(here));
        let (mut decoded, mut broken) = (Vec::new(), None);
        for cut in cuts.iter().cycle() {
            let later = bytes.split_off((*cut).min(bytes.len()));
            writer.write_all(&bytes).expect("write");
            bytes = later;
            while broken.is_none() {
                match reader.look() {
                    Ok(Some(frame)) => decoded.push(frame.to_vec()),
                    Ok(None) => break,
                    Err(error) => broken = Some(error.kind()),
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        prop_assert!(decoded.iter().map(Vec::as_slice).eq(frames.iter().map(<[u8; LENGTH]>::as_slice)));
        let start = garbage.iter().zip(b"RGAP\x02").all(|(byte, expected)| byte == expected);
        let whole = garbage.len() >= LENGTH;
        prop_assert_eq!(broken, (!start || whole).then_some(ErrorKind::InvalidData));
        drop(writer);
        if broken.is_none() {
            prop_assert_eq!(reader.look().expect_err("closed").kind(), ErrorKind::UnexpectedEof);
        }
    }

    /// A writer that takes a few bytes at a time gets whole messages all the same, and of those that
    /// do not fit, none.
    #[test]
    fn a_full_pipe_loses_whole_messages(read in proptest::collection::vec(1..5_000_usize, 1..20)) {
        let [there, here] = socketpair();
        let (mut reader, mut writer) = (File::from(there), both_ways(here));
        let mut bytes = Vec::new();
        for (number, read) in read.iter().enumerate() {
            for more in 0..1_000 {
                let number = u64::try_from(number).expect("small") * 1_000 + more;
                writer.send(&request(TOKEN, number)).expect("open");
            }
            let mut some = vec![0; *read];
            let length = reader.read(&mut some).expect("open");
            bytes.extend_from_slice(&some[..length]);
        }
        let sequences: Vec<u64> = bytes.chunks_exact(LENGTH)
            .map(|frame| Message::parse(frame).expect("whole").sequence).collect();
        prop_assert!(sequences.is_sorted_by(|earlier, later| earlier < later));
    }
}
