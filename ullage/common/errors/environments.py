"""Errors of the agent."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

# Errors of allocation.

ALLOCATION_NO_ROOM: Final = ErrorKind(
    "allocation-no-room",
    "{count} may need {asked} of memory, {each} each with the hypervisor; this host has {free}",
    "lower `count` or `memory`, end what else runs here, or use a larger host",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_NO_COPY: Final = ErrorKind(
    "allocation-no-copy",
    "an instance of {provider} cannot have a copy of the image of its own: {reason}",
    "write `copy: backing`, or make room on the disk",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_NOT_COLD: Final = ErrorKind(
    "allocation-not-cold",
    "`cold: true` drops an image from this host's memory, and {reason}",
    "leave out `cold`; where there is no image, leave out `image: host`, so that one is built",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_TOO_LATE: Final = ErrorKind(
    "allocation-too-late",
    "{name} was not ready within {seconds:g} s; the last that was seen of it: {last}",
    "what was begun is taken down; a slow host needs a longer limit",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_APPLICATION: Final = ErrorKind(
    "allocation-application",
    "the application in {name} does not work: {reason}",
    "try its command in an instance; what was begun is taken down",
    ExitCode.SOME_CELLS_FAILED,
)
RELEASE_TOO_LATE: Final = ErrorKind(
    "release-too-late",
    "{name} was not gone within {seconds:g} s",
    "its processes are killed; `ullage clean` removes what may still be there",
    ExitCode.SOME_CELLS_FAILED,
)


# Errors of containers and their network.

INSTANCE_NOT_STARTED: Final = ErrorKind(
    "instance-not-started",
    "{provider} could not start {name}: {reason}",
    "`ullage doctor` shows what this host can do",
    ExitCode.SOME_CELLS_FAILED,
)
INSTANCE_NOT_REMOVED: Final = ErrorKind(
    "instance-not-removed",
    "{name} may still be there: {reason}",
    "`ullage clean` tries again; by hand: {command}",
    ExitCode.SOME_CELLS_FAILED,
)
INSTANCE_NOT_LIMITED: Final = ErrorKind(
    "instance-not-limited",
    "{provider} cannot limit {what} for {name} here: {reason}",
    "run as root, or write `memory: host` and whole CPUs under `resources:`",
)
NETWORK_FAILED: Final = ErrorKind(
    "network-failed",
    "iproute2 could not set up the run's network: {reason}",
    "`ullage doctor` shows what this host can do; `ullage clean` removes what an old run left",
)
NETWORK_FULL: Final = ErrorKind(
    "network-full", "{what} is in use on {where}", "use fewer instances, or end other runs first"
)
NETWORK_NO_RATE: Final = ErrorKind(
    "network-no-rate",
    "this host cannot hold a link to {link}: {reason}",
    "load the kernel's token bucket: `modprobe sch_tbf`; or leave out `network: rate`",
)
NETWORK_NO_DELAY: Final = ErrorKind(
    "network-no-delay",
    "this host cannot delay a link, {link}: {reason}",
    "load the kernel's network emulator: `modprobe sch_netem`; a kernel that has none cannot run"
    " a plan with `network: delay`",
)
NETWORK_NO_BOND: Final = ErrorKind(
    "network-no-bond",
    "this host cannot make one link of several, {link}: {reason}",
    "load the kernel's bonding: `modprobe bonding`; a kernel that has none cannot run a plan with"
    " `network: bond`",
)
NETWORK_FILTERED: Final = ErrorKind(
    "network-filtered",
    "the host's packet filter drops frames between two ports of {bridge}",
    "accept them: `iptables -I FORWARD -s {blocks} -d {blocks} -j ACCEPT`",
)


# Errors of cgroups and limits.

CGROUP_MISSING: Final = ErrorKind(
    "cgroup-missing",
    "this host has no cgroup controller {controller}",
    "boot with that controller enabled, or leave the limit out of the plan",
)
CGROUP_DENIED: Final = ErrorKind(
    "cgroup-denied",
    "cannot set {what} in {path}: {reason}",
    "run as root (inside a container with a writable cgroup file system), or write"
    " `memory: host` and whole CPUs under `resources:`",
)
CGROUP_STUCK: Final = ErrorKind(
    "cgroup-stuck",
    "the cgroup {path} did not become {state} within {seconds:.0f} s",
    "a process in it may hang in the kernel (state D); see `ps -eo pid,stat,wchan,args`",
    ExitCode.SOME_CELLS_FAILED,
)
LIMIT_NOT_APPLIED: Final = ErrorKind(
    "limit-not-applied",
    "{instance}: asked for {asked}, but inside there is {seen}",
    "`ullage doctor` shows which limits this host can set",
)


AGENT_BINARY_MISSING: Final = ErrorKind(
    "agent-binary-missing",
    "the agent's binary is not there; looked at {places}",
    "`make build` builds it, `make windows` the one for Windows; or name it in $ULLAGE_AGENT",
)
PROGRAM_MISSING: Final = ErrorKind(
    "program-missing",
    "a program of ullage's own is not there: {program}",
    "`make programs` builds those that workloads run",
)
AGENT_NOT_STARTED: Final = ErrorKind(
    "agent-not-started",
    "the agent of {agent} did not start: {reason}",
    "`ullage doctor` shows what this host can do",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_LOST: Final = ErrorKind(
    "agent-lost",
    "the agent of {agent} is gone: {reason}",
    "look at the instance's console log; its memory limit may be too low",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_SILENT: Final = ErrorKind(
    "agent-silent",
    "the agent of {agent} has not answered {op} for {seconds:.0f} s",
    "the instance may be hung or starved; look at its console log",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_SLOW: Final = ErrorKind(
    "agent-slow",
    "{op} of {path} at {agent} has not ended within {seconds:.0f} s, the limit for {size}",
    "the instance or its channel is starved, or does not take the file; look at its console log",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_REFUSED: Final = ErrorKind(
    "agent-refused",
    "the agent of {agent} could not {op}: {reason} ({error})",
    "check that the program or file exists in the image",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_CORRUPT: Final = ErrorKind(
    "agent-corrupt",
    "{path} did not arrive whole at or from {agent}: {reason}",
    "the channel to the instance damages data; try another transport",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_CLOCK: Final = ErrorKind(
    "agent-clock",
    "the clock of {agent} cannot be known: {reason}",
    "nothing that it says of time can be used; make the instance anew, or mend the host's clock",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_NOT_READY: Final = ErrorKind(
    "agent-not-ready",
    "{reason} ({program} in {agent} did not print {text})",
    "its output is kept in the run folder",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_FLOOD: Final = ErrorKind(
    "agent-flood",
    "{program} in {agent} printed more than {limit} and was killed",
    "make the program less talkative",
    ExitCode.SOME_CELLS_FAILED,
)


# Errors of libvirt.

LIBVIRT_PASSWORD: Final = ErrorKind(
    "libvirt-password",
    "{uri} asks for something that nobody is there to type: {what}",
    "run as root; or give it in libvirt's auth.conf, to ssh by a key: https://libvirt.org/auth.html",
)
LIBVIRT_ELSEWHERE: Final = ErrorKind(
    "libvirt-elsewhere",
    "{uri} is the host {there}, but image, network and limits are of this one, {here}",
    "log in there and start ullage; here write `uri: qemu:///system`",
)
LIBVIRT_GONE: Final = ErrorKind(
    "libvirt-gone",
    "{instance}: {what}: libvirtd at {uri} does not answer: {reason}",
    "start it again (`systemctl start libvirtd`); then `ullage clean` removes what it still runs",
    ExitCode.SOME_CELLS_FAILED,
)
LIBVIRT_SEED: Final = ErrorKind(
    "libvirt-seed",
    "the domain {domain} cannot be cloned: {reason}",
    "shut it off, and keep its disks as files in a pool; `virsh list --all` names all domains",
)
LIBVIRT_NAME_TAKEN: Final = ErrorKind(
    "libvirt-name-taken",
    "{uri} has a domain {name} that is not ours ({uuid})",
    "rename it: `virsh domrename`; ullage never touches a domain that it has not made",
    ExitCode.SOME_CELLS_FAILED,
)


# Errors of Xen.

XEN_NOT_HERE: Final = ErrorKind(
    "xen-not-here",
    "`provider: xen` needs a host that is dom0 of a Xen, and this is none: {reason}",
    "`apt-get install xen-system-amd64`, boot into Xen, and start ullage in its dom0",
)
XEN_NO_MODE: Final = ErrorKind(
    "xen-no-mode",
    "Xen cannot make a domain with `mode: {mode}` here: it can do {able}",
    "switch on VT-x or AMD-V in the firmware; `mode: pv` does without",
)
XEN_NOT_PINNED: Final = ErrorKind(
    "xen-not-pinned",
    "dom0's vCPU {vcpu} may run on {cpus}, so the CPUs of a plan would be nobody's",
    "boot Xen with `dom0_vcpus_pin`, or `xl vcpu-pin 0 {vcpu} {vcpu}`",
)
