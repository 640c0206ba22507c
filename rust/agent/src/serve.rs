//! The dispatcher: reads frames, answers requests. It is the agent's main thread, so children
//! forked here keep their parent for as long as the agent lives.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use ullage_clock::{Line, Stamp, rgap};

use crate::channel::{Arrival, Channel, Input};
use crate::child::Nursery;
use crate::files::{self, Put};
use crate::frame::{Decoder, Fault, Frame, Kind};
use crate::protocol::{self, Code, Failure, Message, Request, VERSION};
use crate::responses::{ClockState, Response};
use crate::sample::Sample;
use crate::system::children::Children;
use crate::system::{facts, sweep, sys};
use crate::timer::Timer;
use crate::{shutdown, time};

/// Ids of failed puts whose data may still be on the way; beyond this many, forget them.
const FORGET_ABOVE: usize = 1024;

struct Server {
    channel: Arc<Channel>,
    nursery: Nursery,
    puts: HashMap<u32, Put>,
    gets: Arc<Mutex<HashSet<u32>>>,
    failed_puts: HashSet<u32>,
    /// Who answers for the clock, once there was a hello.
    clock: Option<rgap::Server>,
}

/// Serves until the end of file or `bye`; then the agent ends.
pub fn serve(channel: &Arc<Channel>, mut input: Input) -> ! {
    let mut server = match Server::start(Arc::clone(channel)) {
        Ok(server) => server,
        Err(error) => shutdown::end(
            1,
            Some(&format!("cannot start threads: {}", sys::text(&error))),
        ),
    };
    if let Err(error) = channel.announce(&input) {
        shutdown::end(
            1,
            Some(&format!("cannot start a thread: {}", sys::text(&error))),
        );
    }
    let mut decoder = Decoder::default();
    loop {
        let arrival = input.receive();
        let arrived_ns = time::begun_ns();
        match arrival {
            Ok(Arrival::Bytes(bytes)) => decoder.feed(bytes),
            Ok(Arrival::Nobody) => decoder.reset(),
            Ok(Arrival::End) => shutdown::end(0, None),
            Err(error) => {
                shutdown::end(
                    1,
                    Some(&format!(
                        "cannot read from the controller: {}",
                        sys::text(&error)
                    )),
                );
            }
        }
        while let Some(next) = decoder.next_frame() {
            match next {
                Ok(frame) => server.take(&frame, arrived_ns),
                Err(fault) => channel.send(&Response::error(None, describe(&fault))),
            }
        }
    }
}

fn describe(fault: &Fault) -> Failure {
    match fault {
        Fault::Mark => Failure::new(Code::BadMark, "a frame must begin with A1 55"),
        Fault::Kind(kind) => Failure::new(Code::BadKind, format!("{kind} is no kind of frame")),
        Fault::Reserved(byte) => Failure::new(
            Code::BadKind,
            format!("the reserved byte must be 0, not {byte}"),
        ),
        Fault::TooLong { kind, length } => Failure::new(
            Code::TooLong,
            format!("{length} bytes are too long for a {kind:?} frame"),
        ),
    }
}

impl Server {
    fn start(channel: Arc<Channel>) -> std::io::Result<Self> {
        let children = Arc::new(Children::default());
        let timer = Timer::start(Arc::clone(&children))?;
        children.watch()?;
        let nursery = Nursery {
            channel: Arc::clone(&channel),
            children,
            timer,
        };
        Ok(Self {
            channel,
            nursery,
            puts: HashMap::new(),
            gets: Arc::default(),
            failed_puts: HashSet::new(),
            clock: None,
        })
    }

    fn take(&mut self, frame: &Frame, arrived_ns: Option<u64>) {
        self.channel.meet();
        match frame.kind {
            Kind::Json => {}
            Kind::Clock => return self.tell_time(frame, arrived_ns),
            Kind::Stdout | Kind::Stderr | Kind::Data => return self.take_data(frame),
        }
        match protocol::parse(frame.body) {
            Ok(Message::Credit(bytes)) => self.take_credit(bytes),
            Ok(Message::Request { id, request }) => {
                if let Err(failure) = self.answer(id, request) {
                    self.channel.send(&Response::error(Some(id), failure));
                }
            }
            Err(refusal) => self
                .channel
                .send(&Response::error(refusal.id, refusal.failure)),
        }
    }

    fn take_credit(&self, bytes: u64) {
        if !self.channel.credit.give(bytes) {
            let message = format!("credit: {bytes} bytes are more than were sent");
            self.channel
                .send(&Response::error(None, Failure::new(Code::Credit, message)));
        }
    }

    fn answer(&mut self, id: u32, request: Request) -> Result<(), Failure> {
        if self.in_use(id) {
            return Err(Failure::new(Code::IdInUse, format!("id {id} is in use")));
        }
        self.failed_puts.remove(&id);
        match request {
            Request::Hello(hello) => self.hello(id, &hello)?,
            Request::Spawn(spawn) => {
                time::start(None);
                self.nursery.spawn(id, spawn)?;
            }
            Request::Kill(kill) => {
                self.nursery.children.signal(kill.target, kill.signal)?;
                self.channel.send(&Response::done(id));
            }
            Request::Put(put) => self.begin_put(id, &put)?,
            Request::Get(get) => self.get(id, get)?,
            Request::Sample => {
                let sample = Box::new(Sample::take());
                self.channel.send(&Response::Sample { id, sample });
            }
            Request::Sweep => {
                let killed = sweep::sweep(&self.nursery.children)?;
                self.channel.send(&Response::Swept { id, killed });
            }
            Request::Bye => {
                self.channel.send(&Response::done(id));
                shutdown::end(0, None);
            }
        }
        Ok(())
    }

    fn in_use(&self, id: u32) -> bool {
        let gets = self.gets.lock().unwrap_or_else(PoisonError::into_inner);
        gets.contains(&id) || self.puts.contains_key(&id) || self.nursery.children.contains(id)
    }

    /// Answers a request for the time; what is none of this run's is not answered.
    fn tell_time(&mut self, frame: &Frame, arrived_ns: Option<u64>) {
        let asked = self.clock.as_mut().zip(arrived_ns);
        if let Some(pending) = asked.and_then(|(server, ns)| server.receive(frame.body, ns)) {
            self.channel.send_time(&pending);
        }
    }

    fn hello(&mut self, id: u32, hello: &protocol::Hello) -> Result<(), Failure> {
        if hello.version != VERSION {
            let message = format!(
                "version {} is asked for, this agent speaks {VERSION}",
                hello.version
            );
            return Err(Failure::new(Code::Version, message));
        }
        let facts = Box::new(facts::gather());
        time::start(hello.offer.as_ref());
        let shared = hello.offer.as_ref().is_some_and(|offer| {
            Line::parse(&offer.line).is_ok_and(|line| time::share(&offer.boot_id, &line))
        });
        self.clock = Some(rgap::Server::new(rgap::Token(hello.token)));
        let Stamp { ns, reasons } = time::stamp();
        self.channel.send(&Response::Hello {
            id,
            version: VERSION,
            agent: env!("CARGO_PKG_VERSION"),
            facts,
            clock: ClockState {
                ns,
                source: time::source(),
                ordered_ns: time::ordered_ns(),
                reasons: time::names(reasons),
                shared,
                line: time::line(),
            },
        });
        Ok(())
    }

    fn begin_put(&mut self, id: u32, request: &protocol::Put) -> Result<(), Failure> {
        let put = Put::begin(id, request).inspect_err(|_| self.put_failed(id))?;
        self.puts.insert(id, put);
        if request.size == 0 {
            self.continue_put(id, &[])
        } else {
            Ok(())
        }
    }

    /// Bytes of a put; they are consumed whatever becomes of them, so their credit goes back at
    /// once.
    fn take_data(&mut self, frame: &Frame) {
        let bytes = frame.body.len() as u64;
        if bytes > 0 {
            self.channel.send(&Response::Credit { bytes });
        }
        let Some((id, bytes)) = frame.split_id() else {
            let failure = Failure::new(Code::BadField, "the body is too short for an id");
            return self.channel.send(&Response::error(None, failure));
        };
        if self.failed_puts.contains(&id) {
            return;
        }
        if frame.kind != Kind::Data || !self.puts.contains_key(&id) {
            let failure = Failure::new(
                Code::NoSuchId,
                format!("no put with id {id} waits for data"),
            );
            return self.channel.send(&Response::error(Some(id), failure));
        }
        if let Err(failure) = self.continue_put(id, bytes) {
            self.puts.remove(&id);
            self.put_failed(id);
            self.channel.send(&Response::error(Some(id), failure));
        }
    }

    fn continue_put(&mut self, id: u32, bytes: &[u8]) -> Result<(), Failure> {
        let complete = match self.puts.get_mut(&id) {
            Some(put) => put.take(bytes)?,
            None => false,
        };
        if complete && let Some(put) = self.puts.remove(&id) {
            let file = Some(put.finish()?);
            self.channel.send(&Response::Done { id, file });
        }
        Ok(())
    }

    /// What the controller sends before it reads our error is no error of its own.
    fn put_failed(&mut self, id: u32) {
        if self.failed_puts.len() >= FORGET_ABOVE {
            self.failed_puts.clear();
        }
        self.failed_puts.insert(id);
    }

    /// A file may be long and the controller slow: a thread of its own.
    fn get(&self, id: u32, request: protocol::Get) -> Result<(), Failure> {
        let (channel, gets) = (Arc::clone(&self.channel), Arc::clone(&self.gets));
        gets.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id);
        let finished = Arc::clone(&gets);
        let send = move || {
            let answer = files::get(&channel, id, &request);
            finished
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&id);
            channel.send(&answer);
        };
        sys::start_thread("get", send).map_err(|error| {
            gets.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&id);
            Failure::new(
                Code::Io,
                format!("get: cannot start a thread: {}", sys::text(&error)),
            )
        })
    }
}
