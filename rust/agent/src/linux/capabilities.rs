//! What programs on an image's root may not do, although they are root's: one remount would make
//! the image that all runs share writable. Against mistakes, not malice: root has other ways to the
//! host, such as the devices of its disks.

use std::io;

use crate::system::sys;

/// Of `linux/capability.h`: `SYS_MODULE`, `SYS_RAWIO`, `SYS_ADMIN` (mounts), `SYS_BOOT`, `MKNOD`.
const TAKEN: [u32; 5] = [16, 17, 21, 22, 27];
/// `_LINUX_CAPABILITY_VERSION_3`: two words for each set.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[derive(Default)]
#[repr(C)]
struct Word {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Takes them from all that this process will execute. It keeps its own, since it executes nothing
/// itself. Must be called while there is one thread only.
pub fn take_from_programs() -> io::Result<()> {
    for capability in TAKEN {
        let capability = libc::c_ulong::from(capability);
        // SAFETY: no memory is involved.
        sys::check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) })?;
    }
    uninherit()
}

/// Root's programs would get what is inheritable, whatever the bounding set says.
fn uninherit() -> io::Result<()> {
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    let mut words = [Word::default(), Word::default()];
    call(libc::SYS_capget, &header, &mut words)?;
    for capability in TAKEN {
        words[0].inheritable &= !(1 << capability);
    }
    call(libc::SYS_capset, &header, &mut words)
}

fn call(number: libc::c_long, header: &Header, words: &mut [Word; 2]) -> io::Result<()> {
    // SAFETY: a header and two words, as this version of both calls wants them.
    let result = unsafe { libc::syscall(number, &raw const *header, words.as_mut_ptr()) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
