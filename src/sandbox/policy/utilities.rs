//! The basic utilities of a shell at the level `standard`. Programs that are not installed are left out.

use super::Why;

/// Where they are looked for, in this order.
pub(in crate::sandbox) const PLACES: [&str; 2] = ["/usr/bin", "/bin"];

/// Names of programs, with what they come from.
pub(in crate::sandbox) const UTILITIES: &[(&str, Why)] = &[
    (
        "[ arch b2sum base32 base64 basename basenc cat chgrp chmod chown cksum comm cp csplit cut date dd df dir \
         dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id install join link ln \
         logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv \
         printf ptx pwd readlink realpath rm rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf \
         sleep sort split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname \
         unexpand uniq unlink users vdir wc who whoami yes",
        "coreutils",
    ),
    ("find xargs", "findutils"),
    ("grep egrep fgrep", "grep"),
    ("sed", "sed"),
    ("awk mawk gawk", "awk"),
    ("diff diff3 cmp sdiff", "diffutils"),
    ("gzip gunzip zcat zgrep zcmp zdiff zmore znew gzexe uncompress", "gzip"),
    ("tar", "tar"),
    ("bash sh", "scripts, `bash -c` and the scripts among these"),
];

/// Files beside the programs that they need.
pub(in crate::sandbox) const DATA: &[(&str, Why)] = &[
    ("/usr/libexec/coreutils/libstdbuf.so", "stdbuf"),
    ("/usr/lib/x86_64-linux-gnu/coreutils/libstdbuf.so", "stdbuf"),
];

/// Directories that are shown where a level does not show all of `/usr`, if they exist.
pub(in crate::sandbox) const DATA_DIRECTORIES: &[(&str, Why)] = &[
    ("/usr/lib/locale/C.utf8", "without it a shell counts bytes where it should count characters"),
    ("/usr/share/zoneinfo", "`TZ=Asia/Tokyo date`, Python's zoneinfo"),
];

/// Programs that honest libraries execute and can do without. They are refused like any other, and not reported.
pub(in crate::sandbox) const TRIED_BY_LIBRARIES: &[(&str, Why)] = &[
    ("uname", "Python's platform.uname, and with it pandas"),
    ("fc-list", "matplotlib's search for fonts"),
    ("ldconfig", "ctypes.util.find_library"),
    ("gcc", "ctypes.util.find_library"),
    ("cc", "ctypes.util.find_library"),
    ("ld", "ctypes.util.find_library"),
    ("objdump", "ctypes.util.find_library"),
    ("lsb_release", "names of the distribution"),
];
