//! What is like a stock container: root with Docker's fourteen capabilities, a filter that refuses what Docker's does, and
//! no cgroup that could be written. It has the file tree and the processes of the host.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use libseccomp::{ScmpAction, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

const ARGUMENTS: &str = "TEST_CONTAINER_ARGUMENTS";
const DROPPED: &str = "TEST_CONTAINER_DROPPED";
/// This program, told to run [`enter`] below instead of tests, with no cgroup.
const SCRIPT: &str = "umount -l -R /sys/fs/cgroup
TEST_CONTAINER_ARGUMENTS=$(printf '%s\\n' \"$@\") exec \"$0\" harness::container::enter --exact --ignored --nocapture --test-threads=1";

/// In place of a capability that is dropped.
const PROFILE: &str = "profile";

const CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::AUDIT_WRITE);

const REFUSED: &str = "mount umount2 pivot_root unshare setns fsopen fsconfig fsmount fspick open_tree move_mount \
    mount_setattr keyctl add_key request_key bpf ptrace perf_event_open userfaultfd process_vm_readv process_vm_writev \
    kcmp open_by_handle_at name_to_handle_at init_module finit_module delete_module kexec_load kexec_file_load reboot \
    swapon swapoff acct settimeofday clock_settime quotactl syslog sethostname setdomainname io_uring_setup \
    io_uring_enter io_uring_register iopl ioperm";

/// The binary under test in such a container. `dropped`: the capability that it lacks besides, `setuid` or none.
pub fn command(dropped: &str) -> Command {
    super::assert_root();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT]).arg(std::env::current_exe().expect("this program"));
    command.env(DROPPED, dropped);
    command
}

/// The binary under test, run by an ordinary user in a container with the profile that this project has for Docker.
pub fn command_with_profile() -> Command {
    command(PROFILE)
}

/// Without namespaces the users of sessions pass through the directories above their own.
pub fn open_to_all(directory: &Path) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o711)).expect("the directory is ours");
}

#[test]
#[ignore = "a container that other tests start"]
fn enter() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    if std::env::var(DROPPED).is_ok_and(|it| it == PROFILE) {
        profile().load().expect("the filter is loaded");
        let error = super::binary_as(super::As::OrdinaryUser).args(arguments.lines()).env_remove(DROPPED).exec();
        panic!("the binary is not executed: {error}");
    }
    let dropped = if std::env::var(DROPPED).is_ok_and(|it| it == "setuid") {
        CapabilitySet::SETUID
    } else {
        CapabilitySet::empty()
    };
    for capability in CapabilitySet::all().difference(CAPABILITIES.difference(dropped)).iter() {
        // A kernel may not know the newest ones.
        let _ = remove_capability_from_bounding_set(capability);
    }
    filter().load().expect("the filter is loaded");
    let mut command = Command::new(env!("CARGO_BIN_EXE_repltool"));
    let error = command.args(arguments.lines()).env_remove(ARGUMENTS).env_remove(DROPPED).exec();
    panic!("the binary is not executed: {error}");
}

fn filter() -> ScmpFilterContext {
    const NAMESPACES: [u64; 8] =
        [0x80, 0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
    let number = |call: &str| ScmpSyscall::from_name(call).expect("a known call");
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow).expect("a filter");
    // Containers have no no_new_privs by themselves.
    filter.set_ctl_nnp(false).expect("set");
    for call in REFUSED.split_whitespace() {
        filter.add_rule(ScmpAction::Errno(libc::EPERM), number(call)).expect("a rule");
    }
    for flag in NAMESPACES {
        let has = ScmpArgCompare::new(0, ScmpCompareOp::MaskedEqual(flag), flag);
        filter.add_rule_conditional(ScmpAction::Errno(libc::EPERM), number("clone"), &[has]).expect("a rule");
    }
    filter.add_rule(ScmpAction::Errno(libc::ENOSYS), number("clone3")).expect("a rule");
    filter
}

/// The profile, as far as it uses the language of such files.
fn profile() -> ScmpFilterContext {
    let text = include_str!("../../../deploy/seccomp.json");
    let profile: serde_json::Value = serde_json::from_str(text).expect("the profile is JSON");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ALLOW");
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow).expect("a filter");
    filter.set_ctl_nnp(false).expect("set");
    let rules = profile["syscalls"].as_array().expect("a list of rules");
    for rule in rules {
        assert_eq!(rule["action"], "SCMP_ACT_ERRNO");
        let errno = i32::try_from(rule["errnoRet"].as_i64().expect("a number")).expect("an errno");
        for name in rule["names"].as_array().expect("a list of names") {
            let name = name.as_str().expect("a name");
            let call = ScmpSyscall::from_name(name).unwrap_or_else(|_| panic!("{name} is a call"));
            // What this architecture does not have needs no rule.
            let _ = filter.add_rule(ScmpAction::Errno(errno), call);
        }
    }
    filter
}
