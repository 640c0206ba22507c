"""Errors of hosts and parity."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

IMAGE_BUILD_FAILED: Final = ErrorKind(
    "image-build-failed", "the image could not be built: {reason}", "{suggestion}"
)
ARTIFACT_UNREACHABLE: Final = ErrorKind(
    "artifact-unreachable",
    "cannot fetch {url}: {reason}",
    "can this host reach the Internet, or a proxy ($https_proxy)? leave the workload out if not",
)
ARTIFACT_CHANGED: Final = ErrorKind(
    "artifact-changed",
    "{url} is not what it was: its SHA-256 is {found}",
    "nothing was kept; try again, and tell the maintainers of ullage if it stays so",
)
IMAGE_NOT_FOUND: Final = ErrorKind(
    "image-not-found",
    "no image {reference}: {reason}",
    "`docker images` and `podman images` list those here; archives are `docker-archive:FILE` or"
    " `oci:DIRECTORY`, images of a registry `docker://HOST/NAME:TAG`",
)
IMAGE_UNREADABLE: Final = ErrorKind(
    "image-unreadable",
    "{reference} cannot be used: {reason}",
    "nothing was kept of it; build it, or save it, again",
)
IMAGE_NO_ROOM: Final = ErrorKind(
    "image-no-room",
    "{reference} does not fit on the disk of {directory}",
    "make room: it takes three times its size there while it is made; or set `ULLAGE_CACHE_DIR` to"
    " a place on another disk; nothing was kept of it",
)
IMAGE_FOREIGN: Final = ErrorKind(
    "image-foreign",
    "{reference} is for {platform}, and this machine is linux/{own}",
    "build it for this machine: `docker build --platform linux/{own}`",
)
IMAGE_NO_ENTRY: Final = ErrorKind(
    "image-no-entry",
    "{reference} says no entry point and no command, and a workload of the plan has no `argv`",
    "write `argv` at the workload, or `ENTRYPOINT` into the image's Dockerfile",
)
IMAGE_CHANGED: Final = ErrorKind(
    "image-changed",
    "image {digest} was changed since it was built: {what}",
    "nothing may write to an image; remove {dir} and build it again",
)
IMAGE_NOT_KEPT: Final = ErrorKind(
    "image-not-kept",
    "the cache has {count} whose digest begins with {digest}",
    "`ullage image list` shows those that it has",
)
IMAGE_IN_USE: Final = ErrorKind(
    "image-in-use",
    "{image} is in use",
    "wait until the run has ended; `ullage list` and `ullage clean` know of runs",
)
IMAGE_LACKS_PACKAGE: Final = ErrorKind(
    "image-lacks-package",
    "the image has no program {programs}",
    "name its Debian package in the plan, `image: {{packages: [NAME]}}`, put it into your own"
    " image, or use the host's own programs with `image: host`",
)
DISK_NOT_MADE: Final = ErrorKind(
    "disk-not-made", "cannot make the disk {path}: {reason}", "is there space left on that disk?"
)
DISK_EXISTS: Final = ErrorKind("disk-exists", "{file} is already there", "choose another name")
EXPORT_NO_IMAGE: Final = ErrorKind(
    "export-no-image",
    "{file} has `image: host`: there is no image to export",
    "leave `image: host` out of the plan",
)
EXPORT_SEVERAL_IMAGES: Final = ErrorKind(
    "export-several-images",
    "{file}: its environments in {cloud} have {count} images, and a disk has one",
    "export from plans that have one image there each",
)
DISK_UNUSABLE: Final = ErrorKind(
    "disk-unusable",
    "no data can stand in {path}: {reason}",
    "`disk: path` is a directory that you may write to, or an empty block device that nobody uses",
)
DISK_SHARED: Final = ErrorKind(
    "disk-shared",
    "{first} and {second} have different `disk: path`, and both stand on one disk: {disk}",
    "name directories on different disks, or the same one for both",
)
SWAP_UNUSABLE: Final = ErrorKind(
    "swap-unusable",
    "this host cannot swap to {on}: {reason}",
    "`swap: on` is `zram`, a directory with room for a file, or an empty block device that nobody"
    " uses",
)
SWAP_SIZE: Final = ErrorKind(
    "swap-size",
    "{environment} may need {needed} of this host, and `swap` has {resident} resident and {size}",
    "make `resident` less than it may need, and `resident` and `size` together no less",
)
GUEST_KERNEL_UNUSABLE: Final = ErrorKind(
    "guest-kernel-unusable",
    "no guest kernel from {package}: {reason}",
    "run `apt-get update`, then try again",
)
VM_NEVER_BOOTED: Final = ErrorKind(
    "vm-never-booted",
    "{instance} said nothing within {deadline_s:g} s ({accelerator}): {tail}",
    "a slow host needs a longer `boot_deadline_s`",
)
VM_FAILED: Final = ErrorKind(
    "vm-failed",
    "{instance}: {what}: {reason}",
    "the end of its console may tell why: {console}",
)
VM_OUT_OF_MEMORY: Final = ErrorKind(
    "vm-out-of-memory",
    "{instance} is gone: this host's kernel killed its QEMU, as its cgroup ran out of memory",
    "where it swaps, give it more `swap: resident`: the kernel may give up before swap is full",
)
VM_NEEDS_IMAGE: Final = ErrorKind(
    "vm-needs-image",
    "{instance} is a VM and cannot run from the host's own userland",
    "leave `image: host` out of the plan, or the VM",
)
VM_NEEDS_NETWORK: Final = ErrorKind(
    "vm-needs-network",
    "{instance} is to aggregate NICs, and no workload of the plan uses the run's network",
    "leave out `aggregation`, or add a workload that uses the network, such as `iperf3`",
)
VM_NO_KVM: Final = ErrorKind(
    "vm-no-kvm",
    "the plan asks for `accel: kvm`, but no guest boots with KVM here: {reason}",
    "write `accel: auto`; the VM is then emulated, and every table says so",
)
VM_NO_HUGE_PAGES: Final = ErrorKind(
    "vm-no-huge-pages",
    "{instance} cannot have its memory in huge pages of {page}: {reason}",
    "reserve more: `echo NUMBER > {pool}/nr_hugepages`; or leave out `hugepages`",
)
VM_NO_NUMA_NODE: Final = ErrorKind(
    "vm-no-numa-node",
    "`numa` binds a VM's memory to this host's NUMA node {node}: {reason}",
    "leave `host` out of `numa`, or name other nodes",
)
VM_NO_NESTING: Final = ErrorKind(
    "vm-no-nesting",
    "no guest with KVM can run VMs of its own here: {reason}",
    "load KVM's module with `nested=1`, leave out `nested`, or write `accel: tcg`",
)
VM_DISK_UNUSABLE: Final = ErrorKind(
    "vm-disk-unusable",
    "no VM can be made from {path}, as {format}: {reason}",
    "`guest.path` names a disk that boots by itself, `guest.format` its format; shut off whatever "
    "VM still writes to it",
)
VM_NOT_AS_ASKED: Final = ErrorKind(
    "vm-not-as-asked",
    "{instance}: the plan asks for {asked}, and the running VM has {seen}",
    "QEMU or this host cannot do it; leave the option out of the plan",
    ExitCode.SOME_CELLS_FAILED,
)


HOST_MISSING: Final = ErrorKind(
    "host-missing", "missing on this host: {what}", "install it: {command}"
)
HOST_NO_ANSWER: Final = ErrorKind(
    "host-no-answer", "{what} is installed but does not work: {reason}", "start it: {command}"
)
HOST_NEEDS_ROOT: Final = ErrorKind(
    "host-needs-root", "{what} needs root", "run as root, or {otherwise}"
)
HOST_TOO_SMALL: Final = ErrorKind(
    "host-too-small",
    "the plan asks for {asked}, this host has {has}",
    "lower `resources:`, use a larger host, or leave out what needs CPUs of its own: "
    "`design: duet`, a neighbour on `cpus: other`",
)
HOST_DESCRIPTORS: Final = ErrorKind(
    "host-descriptors",
    "{instances} instances, {nodes} other machines: {needed} open files; "
    "this process may have {limit}",
    "raise its hard limit: `ulimit -n {needed}` as root, `nofile` in /etc/security/limits.conf, "
    "`LimitNOFILE=` of a service; or fewer instances",
)
PARITY_UNEQUAL: Final = ErrorKind(
    "parity-unequal",
    "the environments are not equal in {nuisance}: {values}",
    "make them equal, or write `allow: [{nuisance}]` in the plan; the report will then say so",
)
