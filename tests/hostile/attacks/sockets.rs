//! Networks, the host's shared names, and the sockets that it was given.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use super::{Attack, Target, address, call, depends, shared_memory, text, try_call, works};

pub(super) const ATTACKS: &[Attack] = &[
    works("connect to a port of the host", |it| TcpStream::connect(("127.0.0.1", it.scene.tcp_port)).map(drop)),
    works("bind a port of the host", |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    works("send to a port of the host", |it| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.send_to(b"x", ("127.0.0.1", it.scene.udp_port)).map(drop)
    }),
    works("make a TCP socket", |_| socket(libc::AF_INET, libc::SOCK_STREAM)),
    works("make a UDP socket", |_| socket(libc::AF_INET, libc::SOCK_DGRAM)),
    depends("make a TCP socket of version 6", |_| socket(libc::AF_INET6, libc::SOCK_STREAM)),
    depends("make a raw socket", |_| {
        try_call(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_RAW as usize, libc::IPPROTO_ICMP as usize])
    }),
    depends("make a packet socket", |_| socket(libc::AF_PACKET, libc::SOCK_RAW)),
    works("make a netlink socket", |_| socket(libc::AF_NETLINK, libc::SOCK_RAW)),
    depends("make a vsock socket", |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM)),
    depends("make a crypto socket", |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET)),
    depends("make an XDP socket", |_| socket(44, libc::SOCK_RAW)),
    works("make a unix socket", |_| socket(libc::AF_UNIX, libc::SOCK_STREAM)),
    works("connect to an abstract name of the host", |it| {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(&it.scene.abstract_name)?).map(drop)
    }),
    works("turn the listening socket into one that connects", |it| {
        // Without an address, a socket is let go; after that it could go elsewhere, and no gateway would listen again.
        let none = [0_u8; 16];
        try_call(libc::SYS_connect, &[listener(it), address(&none), none.len()])
    }),
    works("shut the listening socket", |it| try_call(libc::SYS_shutdown, &[listener(it), libc::SHUT_RD as usize])),
    works("shut both sides of the listening socket", |it| {
        try_call(libc::SYS_shutdown, &[listener(it), libc::SHUT_RDWR as usize])
    }),
    works("let nobody wait at the listening socket", |it| try_call(libc::SYS_listen, &[listener(it), 0])),
    works("filter the listening socket", |it| {
        // One instruction that drops everything.
        let instruction = libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: std::ptr::from_ref(&instruction).cast_mut() };
        let option = [libc::SOL_SOCKET as usize, libc::SO_ATTACH_FILTER as usize];
        try_call(libc::SYS_setsockopt, &[listener(it), option[0], option[1], address(&program), size_of_val(&program)])
    }),
    works("make the listening socket a shared one", |it| {
        let (on, option) = (1_i32, [libc::SOL_SOCKET as usize, libc::SO_REUSEPORT as usize]);
        try_call(libc::SYS_setsockopt, &[listener(it), option[0], option[1], address(&on), 4])
    }),
    works("map shared memory of the host", |it| shared_memory::attach(it.scene.shared_memory)),
    works("make shared memory", |_| {
        let id = call(libc::SYS_shmget, &[0, 4096, NEW])?;
        try_call(libc::SYS_shmctl, &[id, libc::IPC_RMID as usize, 0])
    }),
    works("make a queue of messages", |_| {
        let id = call(libc::SYS_msgget, &[0, NEW])?;
        try_call(libc::SYS_msgctl, &[id, libc::IPC_RMID as usize, 0])
    }),
    works("make semaphores", |_| {
        let id = call(libc::SYS_semget, &[0, 1, NEW])?;
        try_call(libc::SYS_semctl, &[id, 0, libc::IPC_RMID as usize])
    }),
    depends("open a queue by its name", |_| {
        try_call(libc::SYS_mq_open, &[text(c"repltool-hostile"), libc::O_CREAT as usize | 2, 0o600, 0])
    }),
];

const NEW: usize = libc::IPC_CREAT as usize | 0o600;

fn socket(family: i32, kind: i32) -> io::Result<()> {
    call(libc::SYS_socket, &[family as usize, kind as usize, 0]).map(drop)
}

fn listener(target: &Target) -> usize {
    target.listener.as_raw_fd() as usize
}
