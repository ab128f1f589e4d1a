//! What a session keeps across its sandboxes: its working directory and the users that its processes run as.

use std::collections::{BTreeSet, HashMap};
use std::io;

use repltool_protocol::ids::SessionId;

use crate::sandbox::Identity;
use crate::sandbox::workdir::{Workdir, Workdirs};

/// Inodes of a working directory for each MiB of it: enough for many small files, too few to fill the host's memory.
const INODES_PER_MB: u64 = 256;

/// A working directory and its users.
#[derive(Debug)]
pub(super) struct Home {
    workdir: Workdir,
    identity: Identity,
    slot: u32,
    /// When it was last asked for, in askings.
    used: u64,
}

impl Home {
    /// Where it is, and whose.
    pub(super) fn place(&self) -> (&Workdir, Identity) {
        (&self.workdir, self.identity)
    }
}

/// The homes of all sessions that have had a sandbox.
pub(super) struct Homes {
    homes: HashMap<SessionId, Home>,
    workdirs: Workdirs,
    /// Where the supervisor may use users of its own: the first one, given to the gateway.
    base_uid: Option<u32>,
    free: BTreeSet<u32>,
    next_slot: u32,
    askings: u64,
    disk_mb: u64,
}

impl Homes {
    pub(super) fn new(workdirs: Workdirs, base_uid: Option<u32>, disk_mb: u64) -> Self {
        Self { homes: HashMap::new(), workdirs, base_uid, free: BTreeSet::new(), next_slot: 0, askings: 0, disk_mb }
    }

    /// Says whether a session has a home or may get one, where there may be so many. A gateway that was lost may have left
    /// some without ever releasing them: of the idle ones, that which was used the longest ago makes room.
    pub(super) fn make_room(&mut self, session: &SessionId, most: usize, is_idle: impl Fn(&SessionId) -> bool) -> bool {
        if self.homes.len() < most || self.homes.contains_key(session) {
            return true;
        }
        let idle = self.homes.iter().filter(|(session, _)| is_idle(session));
        let oldest = idle.min_by_key(|(_, home)| home.used).map(|(session, _)| session.clone());
        oldest.iter().for_each(|session| self.release(session));
        oldest.is_some()
    }

    /// The home of a session, made at first use.
    pub(super) fn of(&mut self, session: &SessionId) -> io::Result<(&Workdir, Identity)> {
        if !self.homes.contains_key(session) {
            let home = self.make()?;
            self.homes.insert(session.clone(), home);
        }
        self.askings += 1;
        let home = self.homes.get_mut(session).expect("it was there, or has just been made");
        home.used = self.askings;
        Ok(home.place())
    }

    /// Makes a home of which no session is known yet. It goes back by [`Homes::settle`] or [`Homes::give_up`].
    ///
    /// # Errors
    /// What Linux says.
    pub(super) fn make(&mut self) -> io::Result<Home> {
        let slot = self.take_slot();
        let identity = self.identity(slot);
        match self.workdirs.create(self.disk_mb << 20, self.disk_mb * INODES_PER_MB, identity) {
            Ok(workdir) => Ok(Home { workdir, identity, slot, used: 0 }),
            Err(error) => {
                self.free.insert(slot);
                Err(error)
            }
        }
    }

    /// Whether a session has one.
    pub(super) fn has(&self, session: &SessionId) -> bool {
        self.homes.contains_key(session)
    }

    /// A session that has none moves in.
    pub(super) fn settle(&mut self, session: &SessionId, home: Home) {
        self.askings += 1;
        self.homes.insert(session.clone(), Home { used: self.askings, ..home });
    }

    /// Nobody will move in. Every process that ran there must be gone.
    pub(super) fn give_up(&mut self, home: Home) {
        self.free.insert(home.slot);
    }

    /// Lets a home go. Its users are given out again, so every process of the session must be gone.
    pub(super) fn release(&mut self, session: &SessionId) {
        if let Some(home) = self.homes.remove(session) {
            self.give_up(home);
        }
    }

    /// See [`Workdirs::tidy`].
    pub(super) fn tidy(&self) {
        self.workdirs.tidy();
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next_slot += 1;
            self.next_slot - 1
        })
    }

    /// Two users a session: one for its program, one for its init.
    fn identity(&self, slot: u32) -> Identity {
        match self.base_uid {
            Some(base) => {
                let (payload, init) = (base + 2 + 2 * slot, base + 3 + 2 * slot);
                match self.workdirs.are_plain() {
                    true => Identity::Plain { payload, init },
                    false => Identity::Mapped { payload, init },
                }
            }
            None => Identity::Single,
        }
    }
}
