//! Finds the server's own cgroup folders from `/proc/self/cgroup` and `/proc/self/mountinfo`. Pure: reads no file.

use std::path::{Component, Path, PathBuf};

use super::{SERVER_LEAF, server_of, server_of_side};

/// The folders of the cgroups that this process is in, by what they control.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OwnFolders {
    pub(super) memory: Option<PathBuf>,
    pub(super) pids: Option<PathBuf>,
    pub(super) cpu: Option<PathBuf>,
    pub(super) cpuacct: Option<PathBuf>,
    /// The v2 tree: the only one on a new host, beside the others on a hybrid one.
    pub(super) unified: Option<PathBuf>,
}

/// One mounted hierarchy: which part of the tree, and where.
struct Mount {
    root: PathBuf,
    at: PathBuf,
    unified: bool,
    options: String,
}

pub(super) fn own_folders(cgroups: &str, mountinfo: &str) -> OwnFolders {
    let mounts: Vec<Mount> = mountinfo.lines().filter_map(parse_mount).collect();
    let mut own = OwnFolders::default();
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        if id == "0" && controllers.is_empty() {
            own.unified = mounts.iter().filter(|m| m.unified).find_map(|m| m.folder(path)).map(without_leaf);
            continue;
        }
        for controller in controllers.split(',') {
            let slot = match controller {
                "memory" => &mut own.memory,
                "pids" => &mut own.pids,
                "cpu" => &mut own.cpu,
                "cpuacct" => &mut own.cpuacct,
                _ => continue,
            };
            *slot = mounts.iter().filter(|m| m.controls(controller)).find_map(|m| m.folder(path)).map(without_leaf);
        }
    }
    own
}

/// Takes a process that a server has put into its leaf back to the cgroup that the server was started in, so that its
/// children do not nest one level deeper each time.
fn without_leaf(folder: PathBuf) -> PathBuf {
    if folder.file_name().and_then(|name| server_of_side(name.to_str()?)).is_some() {
        return folder.parent().map_or(folder.clone(), Path::to_owned);
    }
    let server = folder.parent().filter(|_| folder.ends_with(SERVER_LEAF));
    let is_server = |path: &&Path| path.file_name().and_then(|name| server_of(name.to_str()?)).is_some();
    match server.filter(is_server).and_then(Path::parent) {
        Some(base) => base.to_owned(),
        None => folder,
    }
}

impl Mount {
    fn controls(&self, controller: &str) -> bool {
        !self.unified && self.options.split(',').any(|option| option == controller)
    }

    /// The folder of the cgroup `path` below this mount, unless it lies outside of what is mounted here.
    fn folder(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        // A cgroup outside of our cgroup namespace is shown with `..`; it is nobody's to write.
        let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        // Joining an empty path would leave a slash at the end.
        inside.then(|| self.at.components().chain(below.components()).collect())
    }
}

/// Reads a line such as `35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory`.
fn parse_mount(line: &str) -> Option<Mount> {
    let (place, system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, at) = (place.next()?, place.next()?);
    let mut system = system.split(' ');
    let unified = match system.next()? {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    let options = system.nth(1).unwrap_or_default().to_owned();
    Some(Mount { root: unescape(root), at: unescape(at), unified, options })
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescape(field: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (from, to)| text.replace(from, to)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /box /sys/fs/cgroup/mem\\040ory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn hybrid_hosts_give_one_folder_for_each_controller() {
        let own = own_folders("9:name=systemd:/\n4:memory:/box/a\n2:cpu,cpuacct:/\n0::/u\n", HYBRID_MOUNTS);
        assert_eq!(own.memory, Some("/sys/fs/cgroup/mem ory/a".into()));
        assert_eq!(own.cpuacct, Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(own.cpu, own.cpuacct, "one directory for both");
        assert_eq!(own.unified, Some("/sys/fs/cgroup/unified/u".into()));
        assert_eq!(own.pids, None);
    }

    #[test]
    fn cgroups_outside_of_the_mounted_part_are_not_ours() {
        let own = own_folders("4:memory:/elsewhere\n0::/../other\n", HYBRID_MOUNTS);
        assert_eq!(own, OwnFolders::default());
    }

    #[test]
    fn a_server_in_its_leaf_finds_where_it_was_started() {
        let mounts = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let unified = |path: &str| own_folders(&format!("0::{path}\n"), mounts).unified;
        assert_eq!(unified("/unit/repltool-9/_server"), Some("/sys/fs/cgroup/unit".into()));
        assert_eq!(unified("/unit/other/_server"), Some("/sys/fs/cgroup/unit/other/_server".into()));
        assert_eq!(unified("/"), Some("/sys/fs/cgroup".into()));
        let cpu = own_folders("2:cpu,cpuacct:/unit/repltool-9-server\n", HYBRID_MOUNTS).cpu;
        assert_eq!(cpu, Some("/sys/fs/cgroup/cpu,cpuacct/unit".into()));
    }
}
