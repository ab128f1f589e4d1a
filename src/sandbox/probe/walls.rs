//! The namespaces, and what is built in them: a root, a working directory, `/proc`, uids. All in one child in the way
//! that a sandbox is started, so that what stands here stands there.

use std::{
    fs,
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{CWD, Gid, Mode, OFlags, Uid},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
        move_mount, open_tree, unmount,
    },
    process::{chdir, getegid, geteuid, pivot_root},
    thread::{CapabilitySet, UnshareFlags, capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::{
    super::{
        Identity,
        sys::unshare,
        workdir::{Workdir, Workdirs},
    },
    Layer, hints, layer,
    names::*,
    trial::{Child, INNER_DEADLINE, Trial, reap_quick, run, step},
};

/// Host ids for the trial; high, as the supervisor's are. They are never on disk.
const PAYLOAD: u32 = 200_000;
const INIT: u32 = 200_001;

/// Each namespace with its name under `/proc/self/ns`. The cgroup namespace comes by unshare, once the process sits in
/// its cgroup.
const NAMESPACES: [(&str, &str, libc::c_int); 7] = [
    (USER_NAMESPACE, "user", libc::CLONE_NEWUSER),
    (MOUNT_NAMESPACE, "mnt", libc::CLONE_NEWNS),
    (PID_NAMESPACE, "pid", libc::CLONE_NEWPID),
    (NETWORK_NAMESPACE, "net", libc::CLONE_NEWNET),
    (IPC_NAMESPACE, "ipc", libc::CLONE_NEWIPC),
    (UTS_NAMESPACE, "uts", libc::CLONE_NEWUTS),
    (CGROUP_NAMESPACE, "cgroup", libc::CLONE_NEWCGROUP),
];

/// Tries the privileged way first where there is privilege, then that of an ordinary user.
pub(super) fn namespaces() -> Vec<Layer> {
    let privileged = identity() != Identity::Single;
    let mut found = Vec::new();
    if privileged {
        found = run(|child| outside(child, Identity::Mapped { payload: PAYLOAD, init: INIT }));
    }
    if !stood(&found, SESSION_UIDS) {
        found.extend(run(|child| outside(child, Identity::Single)));
    }
    if !stood(&found, USER_NAMESPACE) {
        found.extend(run(|child| child.tell(SESSION_UIDS, plain_uid())));
    } else if !stood(&found, SESSION_UIDS) {
        let reason = if privileged { "two uids could not be mapped" } else { "not started with the right to map uids" };
        let reason = format!("{reason}: all sessions share one uid");
        found.push(layer(SESSION_UIDS, Err(reason)));
    }
    found
}

/// How the server would name the processes of a sandbox, by the rights that it has.
pub(super) fn identity() -> Identity {
    let privileged = capabilities(None).is_ok_and(|sets| {
        sets.effective.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID | CapabilitySet::SETGID)
    });
    if privileged { Identity::Mapped { payload: PAYLOAD, init: INIT } } else { Identity::Single }
}

fn stood(found: &[Layer], name: &str) -> bool {
    found.iter().any(|layer| layer.name == name && layer.active)
}

/// What the supervisor does, around the sandbox.
fn outside(child: &Child, identity: Identity) {
    if identity == Identity::Single
        && let Err(reason) = enter_outer()
    {
        return refused(child, &reason);
    }
    let mut workdirs = workdirs();
    let workdir = workdirs.as_mut().map_err(|reason| reason.clone());
    let workdir = workdir.and_then(|dirs| step("making it", dirs.create(1 << 20, 16, identity)));
    // The clone belongs to the sandbox, the original stays with the session.
    let clone = workdir.as_ref().map_err(String::clone).and_then(|it| step("cloning it", it.share()));
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let file = step("cloning a file", open_tree(CWD, FILE, flags));
    let before = namespace_links();
    let flags = NAMESPACES.iter().map(|(_, _, flag)| flag).fold(0, |all, flag| all | flag) & !libc::CLONE_NEWCGROUP;
    let mut inner = match Trial::start_in(flags, |jail| inside(jail, identity, &before, clone, file)) {
        Ok(inner) => inner,
        Err(error) => return one_by_one(child, &error),
    };
    let mapped = write_maps(inner.pid, identity);
    match (&mapped, identity) {
        (Ok(()), Identity::Mapped { .. }) => {
            child.tell(SESSION_UIDS, Ok("two uids mapped for each session".to_owned()))
        }
        (Ok(()), Identity::Single | Identity::Plain { .. }) => {}
        // Without a map nobody inside owns anything; the inner child sees the end of the pipe and ends.
        (Err(reason), _) => return refused(child, reason),
    }
    inner.go();
    let told = inner.finish(INNER_DEADLINE).0;
    told.iter().for_each(|layer| child.pass_on(layer));
    // What failed inside says more than that the file is not there.
    if let (Ok(workdir), false) = (workdir, told.iter().any(|layer| layer.name == WORKING_DIRECTORY)) {
        child.tell(WORKING_DIRECTORY, shared(&workdir));
    }
}

/// As the server makes them, but for the place, which is any that exists: nobody else sees what it is covered with.
pub(super) fn workdirs() -> Result<Workdirs, String> {
    match step("making a tmpfs", Workdirs::detached())? {
        Some(workdirs) => Ok(workdirs),
        None => step("attaching a tmpfs", Workdirs::over(Path::new(ROOT))),
    }
}

/// What becomes of the sandbox's pid 1.
fn inside(
    jail: &Child,
    identity: Identity,
    before: &[Option<String>],
    workdir: Result<OwnedFd, String>,
    file: Result<OwnedFd, String>,
) {
    if !jail.wait() {
        return;
    }
    let mapped = matches!(identity, Identity::Mapped { .. });
    if let Err(reason) = if mapped { become_root() } else { Ok(()) } {
        return jail.tell(SESSION_UIDS, Err(reason));
    }
    let cgroup = step("unshare", unshare(UnshareFlags::NEWCGROUP));
    for (((name, _, _), before), after) in NAMESPACES.iter().zip(before).zip(namespace_links()) {
        let own = match (before, after) {
            (Some(before), Some(after)) if *before != after => Ok("its own".to_owned()),
            (Some(_), Some(_)) => Err("the same as outside".to_owned()),
            _ => Err("/proc/self/ns cannot be read".to_owned()),
        };
        jail.tell(name, if *name == CGROUP_NAMESPACE { cgroup.clone().and(own) } else { own });
    }
    match new_root() {
        Err(reason) => {
            let reason = hints::with(&reason);
            for name in [PIVOT_ROOT, SMALL_ROOT, PROC_MOUNT, WORKING_DIRECTORY] {
                jail.tell(name, Err(reason.clone()));
            }
        }
        Ok(()) => {
            jail.tell(SMALL_ROOT, file.and_then(|file| show_file(&file)));
            jail.tell(PROC_MOUNT, mount_proc().map_err(|reason| hints::with(&reason)));
            if let Err(reason) = workdir.and_then(|workdir| show(&workdir)) {
                jail.tell(WORKING_DIRECTORY, Err(reason));
            }
            jail.tell(PIVOT_ROOT, leave_old_root());
        }
    }
}

/// An ordinary user has the right to mount only in a user namespace of its own; all sandboxes nest in that.
pub(super) fn enter_outer() -> Result<(), String> {
    // Read first: afterwards there is nobody inside until the map is written.
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    step("unshare", unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS))?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    maps.iter().try_for_each(|(file, text)| step(file, fs::write(format!("/proc/self/{file}"), text)))
}

fn write_maps(pid: i32, identity: Identity) -> Result<(), String> {
    let write = |file: &str, text: &str| step(file, fs::write(format!("/proc/{pid}/{file}"), text));
    match identity {
        Identity::Mapped { payload, init } => {
            let map = format!("0 {init} 1\n1000 {payload} 1\n");
            write("uid_map", &map)?;
            write("gid_map", &map)
        }
        Identity::Single | Identity::Plain { .. } => {
            write("setgroups", "deny")?;
            write("uid_map", &format!("1000 {} 1", geteuid().as_raw()))?;
            write("gid_map", &format!("1000 {} 1", getegid().as_raw()))
        }
    }
}

/// Until this the process has no id that its own namespace knows, and can make no file.
fn become_root() -> Result<(), String> {
    let (uid, gid) = (Uid::ROOT, Gid::ROOT);
    step("setresgid", set_thread_res_gid(gid, gid, gid))?;
    step("setresuid", set_thread_res_uid(uid, uid, uid))
}

fn namespace_links() -> [Option<String>; 7] {
    NAMESPACES.map(|(_, link, _)| Some(fs::read_link(format!("/proc/self/ns/{link}")).ok()?.to_str()?.to_owned()))
}

/// Where the new root is mounted; nobody else sees it.
const ROOT: &str = "/tmp";

fn new_root() -> Result<(), String> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    step("making mounts private", mount_change("/", private))?;
    step(
        "mounting a tmpfs",
        mount("tmpfs", ROOT, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"size=64k,nr_inodes=8"),
    )?;
    step("chdir", chdir(ROOT))?;
    ["proc", "workspace"].iter().try_for_each(|name| step("mkdir", fs::create_dir(name)))
}

fn mount_proc() -> Result<String, String> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    step("mounting a fresh /proc", mount("proc", "proc", "proc", flags, c"subset=pid,hidepid=invisible"))?;
    let own = step("reading it", fs::read_link("proc/self"))?;
    if own == Path::new("1") {
        Ok("fresh, own processes only".to_owned())
    } else {
        Err("it shows foreign pids".to_owned())
    }
}

/// A file of the host that is no directory, and that every host has.
const FILE: &str = "/dev/null";

fn show_file(file: &OwnedFd) -> Result<String, String> {
    step("making a place for a file", fs::write("file", ""))?;
    step("moving a file in", move_mount(file, c"", CWD, c"file", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH))?;
    match step("looking at it", fs::metadata("file"))?.is_file() {
        true => Err("the file that was moved in is not there".to_owned()),
        false => Ok("a file of the host is shown alone".to_owned()),
    }
}

/// The sandbox's half: the session's tmpfs appears, and a file can be made in it.
fn show(workdir: &OwnedFd) -> Result<(), String> {
    step("moving it in", move_mount(workdir, c"", CWD, c"workspace", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH))?;
    step("writing to it", fs::write("workspace/trial", "seen"))
}

/// The session's half: that file is there.
fn shared(workdir: &Workdir) -> Result<String, String> {
    let opened = rustix::fs::openat(workdir.root(), c"trial", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    step("finding a file of the sandbox in it", opened)?;
    let kind = if workdir.is_attached() { "a tmpfs of the server's own namespace" } else { "a detached tmpfs" };
    Ok(format!("{kind}, shown inside"))
}

fn leave_old_root() -> Result<String, String> {
    step("pivot_root", pivot_root(".", "."))?;
    step("detaching the old root", unmount(".", UnmountFlags::DETACH))?;
    match fs::metadata("/usr") {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok("the host's files are out of reach".to_owned()),
        _ => Err("the old root is still there".to_owned()),
    }
}

/// Tells which namespaces are to blame when all together were refused.
fn one_by_one(child: &Child, together: &io::Error) {
    for (name, _, flag) in NAMESPACES {
        let outcome = match super::sys::child_in(libc::CLONE_NEWUSER | flag, || ()) {
            Ok((pid, _)) => {
                reap_quick(pid);
                Ok("alone, but not together with the others".to_owned())
            }
            Err(error) => Err(hints::with(&format!("clone3: {error}"))),
        };
        child.tell(name, outcome);
    }
    let reason = format!("the namespaces were refused: {together}");
    for name in [PIVOT_ROOT, SMALL_ROOT, WORKING_DIRECTORY, PROC_MOUNT] {
        child.tell(name, Err(reason.clone()));
    }
}

fn refused(child: &Child, reason: &str) {
    let reason = hints::with(reason);
    child.tell(USER_NAMESPACE, Err(reason));
    let others = NAMESPACES.iter().map(|(name, _, _)| *name).filter(|name| *name != USER_NAMESPACE);
    for name in others.chain([PIVOT_ROOT, SMALL_ROOT, WORKING_DIRECTORY, PROC_MOUNT]) {
        child.tell(name, Err("needs the user namespace".to_owned()));
    }
}

/// What the supervisor needs of root where there are no namespaces: directories and processes of other users, and becoming
/// one.
const OF_ROOT: [(&str, CapabilitySet); 7] = [
    ("CHOWN", CapabilitySet::CHOWN),
    ("DAC_OVERRIDE", CapabilitySet::DAC_OVERRIDE),
    ("FOWNER", CapabilitySet::FOWNER),
    ("KILL", CapabilitySet::KILL),
    ("SETGID", CapabilitySet::SETGID),
    ("SETPCAP", CapabilitySet::SETPCAP),
    ("SETUID", CapabilitySet::SETUID),
];

/// Where there is no user namespace, a uid of one's own still keeps sessions apart.
fn plain_uid() -> Result<String, String> {
    let effective = step("capget", capabilities(None))?.effective;
    let missing = OF_ROOT.iter().filter(|(_, capability)| !effective.contains(*capability)).map(|(name, _)| *name);
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        return Err(format!(
            "without a user namespace it needs capabilities that are not there: {}",
            missing.join(", ")
        ));
    }
    let (uid, gid) = (Uid::from_raw(PAYLOAD), Gid::from_raw(PAYLOAD));
    step("setgroups", set_thread_groups(&[]))?;
    step("setresgid", set_thread_res_gid(gid, gid, gid))?;
    step("setresuid", set_thread_res_uid(uid, uid, uid))?;
    match set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT) {
        Err(_) => Ok("by setuid, without a user namespace".to_owned()),
        Ok(()) => Err("setuid leaves a way back".to_owned()),
    }
}
