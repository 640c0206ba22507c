//! Both sides of a synchronisation, for whatever carries the messages.

use core::ffi::{c_int, c_void};
use core::slice;

use rust_clock::rgap::{Action, Client, LENGTH, Outcome, Pending, Rules, Server, Synced, Token};

use crate::code;
use crate::types::{UllageCounts, UllageDrift, UllageOutcome, UllageRules, UllageStanding};

#[derive(Debug)]
pub struct UllageClient {
    client: Client,
    pub(crate) outcome: Option<Outcome>,
}

/// Answers the requests of one run, one at a time.
#[derive(Debug)]
pub struct UllageServer {
    server: Server,
    pending: Option<Pending>,
}

/// `ULLAGE_SEND`, `ULLAGE_WAIT` and `ULLAGE_DONE`.
const SEND: c_int = 0;
const WAIT: c_int = 1;
const DONE: c_int = 2;

/// What a client is to do next.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UllageAction {
    pub(crate) kind: c_int,
    pub(crate) result: c_int,
    pub(crate) until_ns: u64,
    pub(crate) message: [u8; LENGTH],
}

/// Bytes of the caller's; none where there is no pointer.
///
/// # Safety
/// `bytes` is null or good for reading `length`.
unsafe fn borrowed<'a>(bytes: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: as promised by the caller.
    (!bytes.is_null()).then(|| unsafe { slice::from_raw_parts(bytes.cast(), length) })
}

/// As the header says.
///
/// # Safety
/// `rules` is null or good for rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_rules_published(rules: *mut UllageRules) -> c_int {
    if rules.is_null() {
        return code::NULL;
    }
    // SAFETY: as promised by the caller.
    unsafe { rules.write(Rules::PUBLISHED.into()) };
    code::OK
}

/// As the header says.
///
/// # Safety
/// `rules` is null or points to some, `token` is null or to 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_client_new(
    rules: *const UllageRules,
    token: *const [u8; 16],
    now_ns: u64,
) -> *mut UllageClient {
    // SAFETY: as promised by the caller.
    let (rules, token) = unsafe { (rules.as_ref(), token.as_ref()) };
    let Some(token) = token else {
        return core::ptr::null_mut();
    };
    let rules = rules.map_or(Rules::PUBLISHED, |rules| Rules::from(*rules));
    Box::into_raw(Box::new(UllageClient {
        client: Client::new(rules, Token(*token), now_ns),
        outcome: None,
    }))
}

/// As the header says.
///
/// # Safety
/// `client` is null or of [`ullage_client_new`], and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_client_free(client: *mut UllageClient) {
    if !client.is_null() {
        // SAFETY: as promised by the caller.
        drop(unsafe { Box::from_raw(client) });
    }
}

/// As the header says.
///
/// # Safety
/// `client` is null or of [`ullage_client_new`]; `out` is null or good for an action.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_client_poll(
    client: *mut UllageClient,
    now_ns: u64,
    out: *mut UllageAction,
) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(it) = (unsafe { client.as_mut() }).filter(|_| !out.is_null()) else {
        return code::NULL;
    };
    let mut action = UllageAction {
        kind: DONE,
        result: code::OK,
        until_ns: 0,
        message: [0; LENGTH],
    };
    match it.client.poll(now_ns) {
        Action::Send(message) => (action.kind, action.message) = (SEND, message),
        Action::Wait { until_ns } => (action.kind, action.until_ns) = (WAIT, until_ns),
        Action::Done(Ok(outcome)) => it.outcome = Some(outcome),
        Action::Done(Err(failure)) => action.result = code::of_failure(failure),
    }
    // SAFETY: as promised by the caller.
    unsafe { out.write(action) };
    code::OK
}

/// As the header says.
///
/// # Safety
/// `client` is null or of [`ullage_client_new`]; `bytes` is null or good for `length`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_client_receive(
    client: *mut UllageClient,
    bytes: *const c_void,
    length: usize,
    now_ns: u64,
    awake: c_int,
) -> c_int {
    // SAFETY: as promised by the caller.
    let (client, bytes) = unsafe { (client.as_mut(), borrowed(bytes, length)) };
    let Some((it, bytes)) = client.zip(bytes) else {
        return code::NULL;
    };
    it.client.receive(bytes, now_ns, awake != 0);
    code::OK
}

/// As the header says.
///
/// # Safety
/// `client` is null or of [`ullage_client_new`]; `out` is null or good for counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_client_counts(
    client: *const UllageClient,
    out: *mut UllageCounts,
) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(it) = (unsafe { client.as_ref() }).filter(|_| !out.is_null()) else {
        return code::NULL;
    };
    // SAFETY: as promised by the caller.
    unsafe { out.write(it.client.counts().into()) };
    code::OK
}

/// As the header says.
///
/// # Safety
/// `client` is null or of [`ullage_client_new`]; `out` is null or good for an outcome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_client_outcome(
    client: *const UllageClient,
    out: *mut UllageOutcome,
) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(it) = (unsafe { client.as_ref() }).filter(|_| !out.is_null()) else {
        return code::NULL;
    };
    let Some(outcome) = &it.outcome else {
        return code::NOT_YET;
    };
    // SAFETY: as promised by the caller.
    unsafe { out.write(outcome.into()) };
    code::OK
}

/// As the header says.
///
/// # Safety
/// `client` is null or of [`ullage_client_new`]; `drift` is null or points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_global_learn(
    client: *const UllageClient,
    drift: *const UllageDrift,
    disruptions: u32,
) -> c_int {
    // SAFETY: as promised by the caller.
    let (client, drift) = unsafe { (client.as_ref(), drift.as_ref()) };
    let Some((it, drift)) = client.zip(drift) else {
        return code::NULL;
    };
    let Some(outcome) = &it.outcome else {
        return code::NOT_YET;
    };
    let learned = Synced::get().learn(outcome, &(*drift).into(), disruptions);
    learned.map_or_else(code::of_refusal, |()| code::OK)
}

/// As the header says.
///
/// # Safety
/// `token` is null or points to 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_server_new(token: *const [u8; 16]) -> *mut UllageServer {
    // SAFETY: as promised by the caller.
    let Some(token) = (unsafe { token.as_ref() }) else {
        return core::ptr::null_mut();
    };
    Box::into_raw(Box::new(UllageServer {
        server: Server::new(Token(*token)),
        pending: None,
    }))
}

/// As the header says.
///
/// # Safety
/// `server` is null or of [`ullage_server_new`], and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_server_free(server: *mut UllageServer) {
    if !server.is_null() {
        // SAFETY: as promised by the caller.
        drop(unsafe { Box::from_raw(server) });
    }
}

/// As the header says.
///
/// # Safety
/// `server` is null or of [`ullage_server_new`]; `bytes` is null or good for `length`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_server_receive(
    server: *mut UllageServer,
    bytes: *const c_void,
    length: usize,
    t2: u64,
) -> c_int {
    // SAFETY: as promised by the caller.
    let (server, bytes) = unsafe { (server.as_mut(), borrowed(bytes, length)) };
    let Some((it, bytes)) = server.zip(bytes) else {
        return code::NULL;
    };
    it.pending = it.server.receive(bytes, t2);
    c_int::from(it.pending.is_some())
}

/// As the header says.
///
/// # Safety
/// `server` is null or of [`ullage_server_new`]; `standing` is null or points to one; `out` is null
/// or good for a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_server_answer(
    server: *mut UllageServer,
    t3: u64,
    standing: *const UllageStanding,
    out: *mut [u8; LENGTH],
) -> c_int {
    // SAFETY: as promised by the caller.
    let (server, standing) = unsafe { (server.as_mut(), standing.as_ref()) };
    let Some((it, standing)) = server.zip(standing).filter(|_| !out.is_null()) else {
        return code::NULL;
    };
    let Some(pending) = it.pending.take() else {
        return code::NOT_YET;
    };
    // SAFETY: as promised by the caller.
    unsafe { out.write(pending.answer(t3, (*standing).into())) };
    code::OK
}
