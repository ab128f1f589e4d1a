//! Files, and what can be made of them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::{Attack, Target, address, call, depends, path, text, try_call, works};

pub(super) const ATTACKS: &[Attack] = &[
    works("open /etc/passwd", |_| read("/etc/passwd")),
    works("open /etc/shadow", |_| read("/etc/shadow")),
    works("list /root", |_| std::fs::read_dir("/root").map(drop)),
    works("list the root", |_| std::fs::read_dir("/etc").map(drop)),
    works("list /proc", |_| std::fs::read_dir("/proc").map(drop)),
    works("open /proc/self/mem", |_| read("/proc/self/environ")),
    works("open /dev/null", |_| read("/dev/null")),
    works("open the secrets of the data directory", |it| first(it.scene.secrets.iter().map(read))),
    works("write beside the store", |it| {
        let beside = it.scene.secrets[0].with_file_name("made");
        File::create(beside).map(drop)
    }),
    works("write into the root", |_| {
        let name = format!("/run/repltool-hostile-{}", std::process::id());
        File::create(&name).map(drop)?;
        std::fs::remove_file(&name)
    }),
    works("leave the store by ..", |it| read(it.scene.data.join("../../../../../etc/passwd"))),
    works("leave the store by a link to a file", |it| read(it.scene.data.join("planted"))),
    works("leave the store by a link to a directory", |it| read(it.scene.data.join("up/etc/passwd"))),
    works("make a link", |it| {
        std::os::unix::fs::symlink("/etc/passwd", it.scene.data.join("made"))?;
        read(it.scene.data.join("made"))
    }),
    depends("make a hard link to a secret", |it| std::fs::hard_link(&it.scene.secrets[0], it.scene.data.join("hard"))),
    works("open below a directory that was passed", |it| open_below(it, c"etc/passwd")),
    works("open a directory below one that was passed", |it| open_below(it, c"etc")),
    works("open memory below a /proc that was passed", |it| {
        let name = path(Path::new(&format!("{}/mem", it.scene.supervisor)));
        let proc = std::os::fd::AsRawFd::as_raw_fd(&it.passed[2]);
        try_call(libc::SYS_openat, &[proc as usize, text(&name), libc::O_RDONLY as usize])
    }),
    works("openat2 below a directory that was passed", |it| {
        let how = [libc::O_RDONLY as u64, 0, 0];
        let args = [it.root() as usize, text(c"etc/passwd"), address(&how), size_of_val(&how)];
        try_call(libc::SYS_openat2, &args)
    }),
    works("go to a directory that was passed", |it| {
        call(libc::SYS_fchdir, &[it.root() as usize])?;
        read("etc/passwd")
    }),
    works("open a directory that was passed by its number", |it| {
        read(format!("/proc/self/fd/{}/etc/passwd", it.root()))
    }),
    works("make a file below a directory that was passed", |it| {
        let name = path(Path::new(&format!("tmp/repltool-hostile-{}", std::process::id())));
        let flags = (libc::O_WRONLY | libc::O_CREAT) as usize;
        call(libc::SYS_openat, &[it.root() as usize, text(&name), flags, 0o600])?;
        try_call(libc::SYS_unlinkat, &[it.root() as usize, text(&name), 0])
    }),
    works("take the name of a file for a handle", |it| {
        let (handle, mount) = ([128_u32; 40], 0_i32);
        let args = [it.root() as usize, text(c"etc/passwd"), address(&handle), address(&mount), 0];
        try_call(libc::SYS_name_to_handle_at, &args)
    }),
    works("open_tree of a directory that was passed", |it| {
        try_call(libc::SYS_open_tree, &[it.root() as usize, text(c"etc"), libc::OPEN_TREE_CLONE as usize])
    }),
    works("change the root to a directory that was passed", |it| {
        call(libc::SYS_fchdir, &[it.root() as usize])?;
        call(libc::SYS_chroot, &[text(c".")])?;
        read("/etc/passwd")
    }),
    works("execute a script of the store", |it| execute(it, b"#!/bin/sh\nexit 0\n")),
    works("execute a copy of itself from memory", |_| execute_memory()),
    works("map memory to execute", |_| {
        let prot = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        try_call(libc::SYS_mmap, &[0, 4096, prot, flags, usize::MAX, 0])
    }),
    works("make memory executable", |_| {
        let (prot, flags) = (libc::PROT_READ as usize, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize);
        let page = call(libc::SYS_mmap, &[0, 4096, prot, flags, usize::MAX, 0])?;
        try_call(libc::SYS_mprotect, &[page, 4096, (libc::PROT_READ | libc::PROT_EXEC) as usize])
    }),
    works("make a device", |it| node(it, libc::S_IFCHR, libc::makedev(1, 3) as usize)),
    works("make a fifo", |it| node(it, libc::S_IFIFO, 0)),
    works("make a socket in the store", |it| {
        std::os::unix::net::UnixListener::bind(it.scene.data.join("socket")).map(drop)
    }),
    works("make a file set-uid", |it| {
        let name = path(&it.scene.data.join("planted-file"));
        std::fs::write(it.scene.data.join("planted-file"), "")?;
        try_call(libc::SYS_fchmodat, &[libc::AT_FDCWD as usize, text(&name), 0o4755])
    }),
    works("make an open file set-uid", |it| {
        let file = File::create(it.scene.data.join("set-uid"))?;
        try_call(libc::SYS_fchmod, &[std::os::fd::AsRawFd::as_raw_fd(&file) as usize, 0o4755])
    }),
    works("open shared memory of others", |it| {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&it.scene.shared_file).map(drop)
    }),
    works("watch files", |_| try_call(libc::SYS_inotify_init1, &[0])),
    depends("watch whole mounts", |_| try_call(libc::SYS_fanotify_init, &[0, 0])),
];

fn read(path: impl AsRef<Path>) -> io::Result<()> {
    File::open(path).map(drop)
}

/// Through if one of several is.
fn first(results: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    let nothing = Err(io::Error::other("nothing to try"));
    results.fold(nothing, |before, result| if before.is_ok() { before } else { result })
}

fn open_below(target: &Target, name: &std::ffi::CStr) -> io::Result<()> {
    try_call(libc::SYS_openat, &[target.root() as usize, text(name), libc::O_RDONLY as usize])
}

fn node(target: &Target, kind: libc::mode_t, device: usize) -> io::Result<()> {
    let name = path(&target.scene.data.join("node"));
    try_call(libc::SYS_mknodat, &[libc::AT_FDCWD as usize, text(&name), (kind | 0o600) as usize, device])
}

/// Gets through if there is no more of this program: the next one exits with 0.
fn execute(target: &Target, content: &[u8]) -> io::Result<()> {
    let place = target.scene.data.join("program");
    OpenOptions::new().create(true).write(true).truncate(true).mode(0o755).open(&place)?.write_all(content)?;
    let name = path(&place);
    let argv = [text(&name), 0];
    try_call(libc::SYS_execve, &[text(&name), address(&argv), address(&0_usize)])
}

fn execute_memory() -> io::Result<()> {
    let fd = call(libc::SYS_memfd_create, &[text(c"program"), 0])?;
    let program = b"#!/bin/sh\nexit 0\n";
    call(libc::SYS_write, &[fd, program.as_ptr() as usize, program.len()])?;
    let argv = [text(c"program"), 0];
    try_call(libc::SYS_execveat, &[fd, text(c""), address(&argv), address(&0_usize), libc::AT_EMPTY_PATH as usize])
}
