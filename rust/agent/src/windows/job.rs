//! A job object: a program with everything that it starts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle, RawHandle};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS, STATUS_PROCESS_IS_TERMINATING};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectBasicAccountingInformation, JobObjectBasicProcessIdList,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, PROCESS_SUSPEND_RESUME,
};

use super::sys;

/// The exit code of what we kill: no program's own, so an end by us can be told.
pub const KILLED: u32 = 0x554C_4C41;
/// More processes than a workload has.
const MOST: usize = 4096;
/// More often than a program that is being stopped starts others.
const PASSES: usize = 100;

/// All that exist, so that the agent's end can kill them and wait.
static ALL: Mutex<Vec<Weak<Job>>> = Mutex::new(Vec::new());
/// The agent's own. Whoever it starts is in there from the first moment on, also before it is in its job.
static OWN: OnceLock<Job> = OnceLock::new();

#[link(name = "ntdll")]
unsafe extern "system" {
    fn NtSuspendProcess(process: HANDLE) -> NTSTATUS;
    fn NtResumeProcess(process: HANDLE) -> NTSTATUS;
}

/// What is in it dies with its last handle, which is here: with the agent.
pub struct Job(OwnedHandle);

/// Puts the agent into a job, in which all that it will start is born: a job in another is of Windows 8.
pub fn enclose() -> io::Result<()> {
    let own = Job::empty()?;
    // SAFETY: touches no memory; it is no handle that needs closing.
    own.assign(unsafe { GetCurrentProcess() })?;
    OWN.get_or_init(|| own);
    Ok(())
}

impl Job {
    /// Of a program.
    pub fn new() -> io::Result<Arc<Self>> {
        let job = Arc::new(Self::empty()?);
        let mut all = all();
        all.retain(|job| job.strong_count() > 0);
        all.push(Arc::downgrade(&job));
        Ok(job)
    }

    fn empty() -> io::Result<Self> {
        // SAFETY: no name and no attributes; not inheritable.
        let job = sys::owned(unsafe { CreateJobObjectW(ptr::null(), ptr::null()) })?;
        // SAFETY: zeros are a valid structure, as long as we say.
        unsafe {
            let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = std::mem::zeroed();
            limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
            sys::check(SetInformationJobObject(
                job.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                length_of(&limits),
            ))?;
        }
        Ok(Self(job))
    }

    pub fn assign(&self, process: RawHandle) -> io::Result<()> {
        // SAFETY: two open handles.
        sys::check(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process) })
    }

    /// Ends all that is in it.
    pub fn kill(&self) -> io::Result<()> {
        // SAFETY: an open handle.
        sys::check(unsafe { TerminateJobObject(self.0.as_raw_handle(), KILLED) })
    }

    /// Who is in it.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        // JOBOBJECT_BASIC_PROCESS_ID_LIST: two numbers of 32 bits, then so many of 64.
        let mut list = vec![0_u64; 1 + MOST];
        let length = u32::try_from(size_of_val(list.as_slice())).unwrap_or(u32::MAX);
        // SAFETY: the list is as long as we say.
        sys::check(unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicProcessIdList,
                list.as_mut_ptr().cast(),
                length,
                ptr::null_mut(),
            )
        })?;
        let count = usize::try_from(list[0] >> 32).unwrap_or(0);
        let pids = list.iter().skip(1).take(count);
        Ok(pids.filter_map(|pid| u32::try_from(*pid).ok()).collect())
    }

    /// What all that was ever in it has used.
    pub fn accounting(&self) -> io::Result<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION> {
        // SAFETY: zeros are a valid structure, as long as we say.
        unsafe {
            let mut used: JOBOBJECT_BASIC_ACCOUNTING_INFORMATION = std::mem::zeroed();
            let length = length_of(&used);
            sys::check(QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut used).cast(),
                length,
                ptr::null_mut(),
            ))?;
            Ok(used)
        }
    }
}

/// The processes of a job that are stopped. While each has a handle here, no other gets its number.
#[derive(Default)]
pub struct Stopped(HashMap<u32, Suspended>);

/// One of them. Windows counts how often a thread was stopped, and so do we.
struct Suspended {
    process: OwnedHandle,
    times: u32,
}

/// Each process is stopped twice: who was in the job before it had a thread, and a thread that another was
/// making meanwhile, run on after the first time. A thread that even the second misses, as its maker stood
/// still between its process and itself for as long as both passes took, runs on: Windows tells nobody.
const TIMES: u32 = 2;

impl Stopped {
    /// Stops all threads of all that is in the job. Who still runs may start others meanwhile, so this looks
    /// again until nobody is new.
    pub fn stop(&mut self, job: &Job) -> io::Result<()> {
        for _ in 0..PASSES {
            if !self.stop_more(job)? {
                return Ok(());
            }
        }
        Err(io::Error::other("it starts processes without end"))
    }

    /// One pass; whether there was anybody to be stopped.
    fn stop_more(&mut self, job: &Job) -> io::Result<bool> {
        let mut more = false;
        for pid in job.pids()? {
            let suspended = match self.0.entry(pid) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    // SAFETY: touches no memory. Who has ended since needs no call.
                    let process = unsafe { OpenProcess(PROCESS_SUSPEND_RESUME, 0, pid) };
                    let Ok(process) = sys::owned(process) else {
                        continue;
                    };
                    entry.insert(Suspended { process, times: 0 })
                }
            };
            if suspended.times < TIMES {
                // SAFETY: an open handle with the right to do so.
                done(unsafe { NtSuspendProcess(suspended.process.as_raw_handle()) })?;
                suspended.times += 1;
                more = true;
            }
        }
        Ok(more)
    }

    /// Lets go on what was stopped, and nothing else: who waits for its instant waits on.
    pub fn go_on(&mut self) -> io::Result<()> {
        let resumed = self.0.drain().map(|(_, suspended)| {
            let resume_once = |_| resume(suspended.process.as_handle());
            (0..suspended.times)
                .map(resume_once)
                .fold(Ok(()), io::Result::and)
        });
        resumed.fold(Ok(()), io::Result::and)
    }
}

/// Lets all threads of a process run, as far as they were stopped once.
pub fn resume(process: BorrowedHandle<'_>) -> io::Result<()> {
    // SAFETY: an open handle with the right to do so.
    done(unsafe { NtResumeProcess(process.as_raw_handle()) })
}

/// Who is ending has no threads to be stopped.
fn done(status: NTSTATUS) -> io::Result<()> {
    if status < 0 && status != STATUS_PROCESS_IS_TERMINATING {
        return Err(io::Error::other(format!("status {status:#010x}")));
    }
    Ok(())
}

/// Ends all that is in any job.
pub fn kill_all() {
    for job in all().iter().filter_map(Weak::upgrade) {
        let _ = job.kill();
    }
}

/// Nobody is left in any job, but for the agent in its own.
pub fn all_gone() -> bool {
    let jobs: Vec<_> = all().iter().filter_map(Weak::upgrade).collect();
    let nobody = |job: &Job| {
        let others = |pids: Vec<u32>| pids.iter().any(|pid| *pid != std::process::id());
        job.pids().is_ok_and(|pids| !others(pids))
    };
    jobs.iter().all(|job| nobody(job)) && OWN.get().is_none_or(nobody)
}

fn all() -> MutexGuard<'static, Vec<Weak<Job>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn length_of<T>(value: &T) -> u32 {
    u32::try_from(size_of_val(value)).unwrap_or(u32::MAX)
}
