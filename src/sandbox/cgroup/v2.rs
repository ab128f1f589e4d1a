//! cgroup v2: one tree, whose controllers have to be handed down level by level, and only past cgroups that hold no
//! process themselves. So the server moves into a leaf of its own where that is needed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    CgroupError, CpuMeter, Group, Layout, Limits, Meter, SERVER_LEAF, is_gone, make_folder, remove_server,
    server_folder, set, set_if_present, sweep,
};

/// The server's own folder, and what was handed down to it.
#[derive(Debug)]
pub struct V2 {
    server: u32,
    /// The cgroup that the server was started in.
    base: PathBuf,
    folder: PathBuf,
    memory: bool,
    pids: bool,
    cpu: bool,
    moved: bool,
}

/// The most that a cgroup can weigh: a hundred ordinary ones.
const MOST_WEIGHT: usize = 10_000;
/// What a cgroup weighs that nothing is said of.
const ORDINARY_WEIGHT: usize = 100;
/// The least that Linux gives.
const LEAST_WEIGHT: usize = 1;

impl V2 {
    /// Makes the folder of `server` below `base` and enables what it can in it; `None` if it may not. `base` is any
    /// folder, so that tests can bring their own.
    pub(super) fn open(base: &Path, server: u32) -> Option<V2> {
        let folder = base.join(server_folder(server));
        make_folder(&folder).ok()?;
        let mut v2 = V2 { server, base: base.to_owned(), folder, memory: false, pids: false, cpu: false, moved: false };
        if !v2.hand_down() && v2.enter_leaf().is_ok() && !v2.hand_down() {
            v2.leave_leaf();
        }
        v2.weigh(super::processors());
        Some(v2)
    }

    /// True when everything that the base has could be enabled for the groups.
    fn hand_down(&mut self) -> bool {
        let offered = fs::read_to_string(self.base.join("cgroup.controllers")).unwrap_or_default();
        let offers = |controller| offered.split_whitespace().any(|word| word == controller);
        let enable = |controller: &str| {
            let switch = |folder: &Path| fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"));
            switch(&self.base).and_then(|()| switch(&self.folder)).is_ok()
        };
        let [memory, pids, cpu] = ["memory", "pids", "cpu"].map(offers);
        self.memory = memory && enable("memory");
        self.pids = pids && enable("pids");
        self.cpu = cpu && enable("cpu");
        (self.memory, self.pids, self.cpu) == (memory, pids, cpu)
    }

    /// Sandboxes are equal as they are made. The server, where it sits among them, weighs as much as a hundred; where it
    /// does not, all of them together weigh as much as an ordinary process on each processor. Best effort.
    fn weigh(&self, processors: usize) {
        let server = self.folder.join(SERVER_LEAF);
        let _ = match self.moved {
            true => set(server.join("cpu.weight"), MOST_WEIGHT),
            false => set(self.folder.join("cpu.weight"), (ORDINARY_WEIGHT * processors).min(MOST_WEIGHT)),
        };
    }

    fn enter_leaf(&mut self) -> io::Result<()> {
        let leaf = self.folder.join(SERVER_LEAF);
        make_folder(&leaf)?;
        fs::write(leaf.join("cgroup.procs"), self.server.to_string())?;
        self.moved = true;
        Ok(())
    }

    fn leave_leaf(&mut self) {
        // Left where it is if this fails: a server in a leaf without limits is as well as before.
        if fs::write(self.base.join("cgroup.procs"), self.server.to_string()).is_ok() {
            self.moved = false;
            is_gone(&self.folder.join(SERVER_LEAF));
        }
    }
}

impl Layout for V2 {
    fn has_memory(&self) -> bool {
        self.memory
    }

    fn has_processes(&self) -> bool {
        self.pids
    }

    fn has_shares(&self) -> bool {
        self.cpu
    }

    fn create(&self, name: &str, limits: &Limits) -> Result<Group, CgroupError> {
        let place = self.folder.join(name);
        let mut group = Group::new(limits);
        group.add(place.clone())?;
        group.unified = Some(place.clone());
        group.meters.cpu = Some(CpuMeter::Stat(Meter::new(place.join("cpu.stat"))));
        if self.memory {
            set(place.join("memory.max"), limits.memory_bytes)?;
            group.memory = vec![place.join("memory.max")];
            set_if_present(place.join("memory.swap.max"), 0)?;
            // All or none: a sandbox that lost one process at random is of no use to anybody.
            set_if_present(place.join("memory.oom.group"), 1)?;
            group.meters.memory_current = Some(Meter::new(place.join("memory.current")));
            group.meters.memory_peak = Some(Meter::new(place.join("memory.peak")));
            group.meters.oom = Some(Meter::new(place.join("memory.events")));
        }
        group.share = self.cpu.then(|| (place.join("cpu.weight"), LEAST_WEIGHT, ORDINARY_WEIGHT));
        if self.pids {
            set(place.join("pids.max"), limits.max_processes)?;
            group.meters.refused_forks = Some(Meter::new(place.join("pids.events")));
        }
        Ok(group)
    }

    fn sweep(&self) {
        sweep::sweep(&[&self.base], self.server);
    }

    fn shutdown(&self) {
        if self.moved {
            // The base takes processes back only once it hands nothing down any more.
            let all = if self.cpu { "-memory -pids -cpu" } else { "-memory -pids" };
            for folder in [&self.folder, &self.base] {
                let _ = fs::write(folder.join("cgroup.subtree_control"), all);
            }
            // The writer itself: the server, or what cleans up behind it.
            let _ = fs::write(self.base.join("cgroup.procs"), "0");
        }
        remove_server(&self.folder);
    }

    fn is_gone(&self) -> bool {
        !self.folder.exists()
    }
}

/// These run against ordinary folders: they show what would be written, not that Linux takes it.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Usage;
    use super::*;

    const LIMITS: Limits = Limits { memory_bytes: 1 << 28, max_processes: 32 };
    const SERVER: u32 = 77;

    fn base(controllers: &str) -> tempfile::TempDir {
        let base = tempfile::tempdir().expect("a temporary folder");
        fs::write(base.path().join("cgroup.controllers"), controllers).expect("written");
        base
    }

    fn read(path: PathBuf) -> String {
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A real group's folder goes with its files in it; an ordinary one does not.
    fn empty(folder: &Path) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().is_file() {
                fs::remove_file(entry.path()).expect("removed");
            }
        }
    }

    #[test]
    fn delegated_controllers_are_handed_down_and_limits_written() {
        let base = base("cpuset cpu io memory pids");
        let v2 = V2::open(base.path(), SERVER).expect("writable");
        assert!(v2.has_memory() && v2.pids && !v2.moved, "nothing was in the way, so the server stays");
        let folder = base.path().join("repltool-77");
        assert_eq!(read(folder.join("cgroup.subtree_control")), "+cpu");
        assert!(v2.has_shares());
        assert_eq!(read(folder.join("cpu.weight")), (100 * super::super::processors()).to_string());
        let group = v2.create("s1", &LIMITS).expect("made");
        let place = folder.join("s1");
        let written =
            [("memory.max", "268435456"), ("memory.swap.max", "0"), ("memory.oom.group", "1"), ("pids.max", "32")];
        for (file, value) in written {
            assert_eq!(read(place.join(file)), value, "{file}");
        }
        group.attach(4711).expect("attached");
        assert_eq!(read(place.join("cgroup.procs")), "4711");
        assert!(group.attach(0).is_err(), "zero would move the server");
        assert!(group.kill());
        assert_eq!(read(place.join("cgroup.kill")), "1");
    }

    #[test]
    fn a_server_among_its_sandboxes_outweighs_them() {
        let base = base("memory pids cpu");
        let mut v2 = V2::open(base.path(), SERVER).expect("writable");
        v2.enter_leaf().expect("moved");
        v2.weigh(4);
        assert_eq!(read(base.path().join("repltool-77/_server/cpu.weight")), "10000");
        // A sandbox keeps the weight that it is made with, which is the same for all.
        v2.create("s1", &LIMITS).expect("made");
        assert!(!base.path().join("repltool-77/s1/cpu.weight").exists());
    }

    #[test]
    fn usage_is_read_in_the_words_of_v2() {
        let base = base("memory pids");
        let v2 = V2::open(base.path(), SERVER).expect("writable");
        let mut group = v2.create("s1", &LIMITS).expect("made");
        let place = base.path().join("repltool-77/s1");
        let untold = Usage {
            cpu: Duration::ZERO,
            memory_current: None,
            memory_peak: None,
            oom_kills: None,
            refused_forks: None,
        };
        assert_eq!(group.usage(), untold, "files that are not there are not guessed");
        fs::write(place.join("cpu.stat"), "usage_usec 1500\nuser_usec 1000\n").expect("written");
        fs::write(place.join("memory.current"), "4096\n").expect("written");
        fs::write(place.join("memory.peak"), "8192\n").expect("written");
        fs::write(place.join("memory.events"), "low 0\noom 2\noom_kill 1\noom_group_kill 0\n").expect("written");
        fs::write(place.join("pids.events"), "max 5\n").expect("written");
        let cpu = Duration::from_micros(1500);
        let told = Usage {
            cpu,
            memory_current: Some(4096),
            memory_peak: Some(8192),
            oom_kills: Some(1),
            refused_forks: Some(5),
        };
        assert_eq!(group.usage(), told);
        assert!(!group.remove(), "not while something is in it");
        empty(&place);
        assert!(group.remove() && group.remove(), "gone, and asking again changes nothing");
    }

    #[test]
    fn without_controllers_a_group_still_kills_and_counts() {
        let base = base("hugetlb");
        let v2 = V2::open(base.path(), SERVER).expect("writable");
        assert!(!v2.has_memory() && !v2.moved);
        let group = v2.create("s1", &LIMITS).expect("made");
        assert!(!base.path().join("repltool-77/s1/memory.max").exists());
        assert!(group.kill());
    }

    #[test]
    fn a_base_that_hands_nothing_down_gets_its_server_back() {
        let base = base("memory pids");
        fs::create_dir(base.path().join("cgroup.subtree_control")).expect("a folder refuses to be written");
        let v2 = V2::open(base.path(), SERVER).expect("writable");
        assert!(!v2.has_memory() && !v2.moved);
        assert_eq!(read(base.path().join("repltool-77/_server/cgroup.procs")), "77", "it had tried the leaf");
        assert_eq!(read(base.path().join("cgroup.procs")), "77");
    }

    #[test]
    fn shutdown_takes_the_server_out_of_its_leaf() {
        let base = base("memory");
        let mut v2 = V2::open(base.path(), SERVER).expect("writable");
        v2.enter_leaf().expect("moved");
        let folder = base.path().join("repltool-77");
        empty(&folder.join(SERVER_LEAF));
        v2.shutdown();
        assert_eq!(read(base.path().join("cgroup.procs")), "0");
        assert_eq!(read(base.path().join("cgroup.subtree_control")), "-memory -pids");
        v2.moved = false;
        empty(&folder);
        v2.shutdown();
        assert!(!folder.exists());
    }

    #[test]
    fn sweep_takes_only_the_dead_and_spares_other_pid_namespaces() {
        let base = base("memory");
        let v2 = V2::open(base.path(), std::process::id()).expect("writable");
        let dead = base.path().join("repltool-4194400");
        let foreign = base.path().join("repltool-4194401");
        let alive = base.path().join("repltool-1");
        let unrelated = base.path().join("other-4194400");
        for folder in [&dead, &foreign, &alive, &unrelated] {
            fs::create_dir_all(folder.join("s1")).expect("made");
        }
        fs::write(foreign.join("s1/cgroup.procs"), "0\n").expect("written");
        v2.sweep();
        let left = [&dead, &foreign, &alive, &unrelated].map(|folder| folder.exists());
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn sweep_empties_the_folder_of_a_dead_namesake_but_not_the_servers_own_leaf() {
        let base = base("memory");
        let mut v2 = V2::open(base.path(), SERVER).expect("writable");
        v2.enter_leaf().expect("moved");
        let folder = base.path().join("repltool-77");
        fs::create_dir(folder.join("old")).expect("made");
        v2.sweep();
        assert!(!folder.join("old").exists());
        assert!(folder.join(SERVER_LEAF).exists());
    }
}
