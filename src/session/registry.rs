//! Every session of this gateway: creates within caps, looks up, takes up after a restart, drains. Never runs code.

mod error;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use futures::FutureExt;
use repltool_protocol::event::{ExecutionState, SessionStatus};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{Language, SessionConfig};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::actor::{Actor, Origin, Parts, Settings};
use super::audited;
use super::log::{Log, LogError, LogLimits, LogReader, Total};
use super::quotas::{Account, Caps, Quotas, Wish};
use super::{COMMAND_QUEUE, Command, Identity, Lifespan, Screening, SessionHandle, Snapshot, create_request};
use crate::audit::Audit;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::runtime::{BootError, Kernel};
use crate::store::{SessionRow, Store};
use crate::supervisor::handle::SupervisorHandle;
pub use error::{CreateError, OpenError};

/// Who is to have a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// By this name sessions are listed.
    pub name: String,
    /// How many they may be with this one; none: as many as everybody may have. Lowers that, never raises it.
    pub max_sessions: Option<usize>,
    /// What else they may have at most.
    pub caps: Caps,
}

/// Every session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sessions: DashMap<SessionId, SessionHandle>,
    total: Arc<Semaphore>,
    subjects: DashMap<String, Arc<Semaphore>>,
    max: usize,
    max_per_subject: usize,
    settings: Settings,
    sandbox: crate::config::Sandbox,
    pub(super) log_limits: LogLimits,
    pub(super) log_total: Total,
    pub(super) logs: PathBuf,
    pub(super) store: Store,
    pub(super) supervisor: SupervisorHandle,
    pub(super) audit: Audit,
    screening: Arc<Screening>,
    pub(super) metrics: Metrics,
    pub(super) quotas: Quotas,
    tasks: TaskTracker,
    draining: AtomicBool,
}

/// What a session holds of the caps, for as long as it is there.
pub(super) type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Registry {
    /// A registry over the logs in `root`, without sessions.
    ///
    /// # Errors
    /// [`OpenError::Folder`].
    pub fn new(
        config: &Config,
        root: &Path,
        store: Store,
        supervisor: SupervisorHandle,
        audit: Audit,
        metrics: Metrics,
    ) -> Result<Self, OpenError> {
        let logs = root.join("sessions");
        std::fs::create_dir_all(&logs).map_err(OpenError::Folder)?;
        let seconds = Duration::from_secs;
        let shared = Shared {
            sessions: DashMap::new(),
            total: Arc::new(Semaphore::new(config.sessions.max)),
            subjects: DashMap::new(),
            max: config.sessions.max,
            max_per_subject: config.sessions.max_per_subject,
            settings: Settings {
                queue: config.sessions.queue,
                idle_timeout: seconds(config.sessions.idle_timeout_s),
                idle_after: seconds(config.sessions.idle_after_s),
                keep_ended: seconds(config.store.keep_ended_s),
                violations_per_minute: config.sandbox.violations_per_minute,
            },
            sandbox: config.sandbox.clone(),
            log_limits: LogLimits::new(config.store.session_mb << 20),
            log_total: Total::new(config.store.total_mb << 20),
            logs,
            quotas: Quotas::new(&config.quotas, store.clone(), metrics.clone()),
            store,
            supervisor,
            audit,
            screening: Arc::new(Screening::new(&config.sandbox)),
            metrics,
            tasks: TaskTracker::new(),
            draining: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Creates a session and waits until its interpreter is ready.
    ///
    /// # Errors
    /// See [`CreateError`].
    ///
    /// # Cancel safety
    /// A session whose caller goes away while it boots is not created.
    pub async fn create(&self, owner: &Owner, config: SessionConfig) -> Result<SessionHandle, CreateError> {
        self.create_traced(owner, config, Lifespan::Kept).await
    }

    /// [`Registry::create`] for one request, which is to terminate the session. It counts to the caps, and is found neither
    /// by [`Registry::get`] nor in a [`Registry::list`].
    ///
    /// # Errors
    /// As [`Registry::create`].
    ///
    /// # Cancel safety
    /// Not cancel-safe: whoever goes away may leave a session behind until its idle timeout.
    pub async fn create_one_shot(&self, owner: &Owner, config: SessionConfig) -> Result<SessionHandle, CreateError> {
        self.create_traced(owner, config, Lifespan::OneShot).await
    }

    pub(super) async fn create_for(
        &self,
        owner: &Owner,
        config: SessionConfig,
        lifespan: Lifespan,
    ) -> Result<SessionHandle, CreateError> {
        if !self.ready() {
            return Err(CreateError::Draining);
        }
        if self.shared.log_total.is_over() || self.shared.audit.refuses() {
            return Err(CreateError::StorageFull);
        }
        let permits = self.permits(&owner.name, owner.max_sessions)?;
        let account = self.account(owner);
        let admitted = account.admit(match lifespan {
            Lifespan::Kept => Wish::SESSION,
            Lifespan::OneShot => Wish::ONE_SHOT,
        })?;
        let identity = Arc::new(Identity {
            id: new_session_id(),
            owner: owner.name.clone(),
            language: config.language,
            sandbox_mode: config.sandbox_mode,
            limits: config.resource_limits,
            created_at: jiff::Timestamp::now(),
            lifespan,
        });
        let meter = self.shared.metrics.session(identity.language, identity.sandbox_mode);
        let boot = Kernel::boot(&self.shared.supervisor, create_request(&identity, &config));
        let (kernel, (log, reader)) = match tokio::join!(meter.start(boot), self.store_new(&identity, &config)) {
            (Ok(kernel), Ok(stored)) => (kernel, stored),
            (booted, stored) => return Err(self.unmake(&identity.id, booted.err(), stored.err()).await),
        };
        admitted.keep();
        meter.created();
        tracing::info!(session = %identity.id, language = ?identity.language, mode = ?identity.sandbox_mode, "created");
        self.shared.audit.note(audited::created(&identity));
        let handle = self.run(identity, config, log, reader, Some(permits), Origin::New(kernel));
        handle.begun().await;
        Ok(handle)
    }

    /// Takes back what there is of a session that could not be made; says why it could not.
    async fn unmake(&self, id: &SessionId, booted: Option<BootError>, stored: Option<CreateError>) -> CreateError {
        self.shared.supervisor.release(id);
        if stored.is_none() {
            self.erase(id).await;
        }
        booted.map(|error| unavailable(&error)).or(stored).unwrap_or(CreateError::Internal)
    }

    async fn store_new(&self, identity: &Identity, config: &SessionConfig) -> Result<(Log, LogReader), CreateError> {
        let dir = self.shared.logs.join(identity.id.as_str());
        let (log, reader) = Log::create(&dir, self.shared.log_limits).map_err(|error| match error {
            LogError::Full(_) => CreateError::StorageFull,
            error => internal(&error),
        })?;
        let row = SessionRow {
            id: identity.id.clone(),
            owner: identity.owner.clone(),
            config: config.clone(),
            created_at: identity.created_at,
            ended_at: match identity.lifespan {
                Lifespan::Kept => None,
                Lifespan::OneShot => Some(SessionRow::TO_BE_DELETED),
            },
        };
        match self.shared.store.create_session(row).await {
            Ok(()) => Ok((log, reader)),
            Err(error) => {
                let _ = log.delete();
                Err(if error.is_full() { CreateError::StorageFull } else { internal(&error) })
            }
        }
    }

    /// Starts the actor of a session and makes it known.
    pub(super) fn run(
        &self,
        identity: Arc<Identity>,
        config: SessionConfig,
        mut log: Log,
        reader: LogReader,
        permits: Option<Permits>,
        origin: Origin,
    ) -> SessionHandle {
        log.share(self.shared.log_total.clone(), self.shared.quotas.stored(&identity.owner));
        let (sender, commands) = mpsc::channel(COMMAND_QUEUE);
        let (snapshot, watched) = watch::channel(first_snapshot(&identity));
        let shared = &self.shared;
        let (store, screening) = (shared.store.clone(), shared.screening.clone());
        let handle = SessionHandle::new(identity.clone(), sender, watched, reader, store, screening);
        let parts = Parts {
            identity: identity.clone(),
            config,
            settings: shared.settings,
            policy: shared.sandbox.policy(identity.sandbox_mode),
            log,
            meter: shared.metrics.session(identity.language, identity.sandbox_mode),
            store: shared.store.clone(),
            supervisor: shared.supervisor.clone(),
            account: shared.quotas.account(&identity.owner, Caps::default()),
            audit: shared.audit.clone(),
            commands,
            snapshot,
        };
        shared.sessions.insert(identity.id.clone(), handle.clone());
        // It outlives the request that it was made by.
        let span = tracing::info_span!(parent: None, "session", id = %identity.id);
        let registry = self.clone();
        let actor = async move {
            // A panic ends this session and no other; its kernel is killed as it is dropped.
            let outcome = std::panic::AssertUnwindSafe(Actor::new(parts, origin).run()).catch_unwind().await;
            if outcome.is_err() {
                tracing::error!("a fault ended the session");
                registry.shared.audit.note(audited::ended(&identity, "fault"));
                registry.shared.supervisor.release(&identity.id);
                if identity.lifespan == Lifespan::OneShot {
                    registry.erase(&identity.id).await;
                }
            }
            registry.forget(&identity, permits);
        };
        shared.tasks.spawn(actor.instrument(span));
        handle
    }

    /// Makes ready what the first execution of each language needs, and would have to wait for.
    pub fn prepare(&self, languages: impl IntoIterator<Item = Language>) {
        for language in languages {
            let screening = self.shared.screening.clone();
            self.shared.tasks.spawn_blocking(move || screening.prepare(language));
        }
    }

    fn forget(&self, identity: &Identity, permits: Option<Permits>) {
        self.shared.sessions.remove(&identity.id);
        drop(permits);
        let max = self.shared.max_per_subject;
        self.shared.subjects.remove_if(&identity.owner, |_, held| held.available_permits() == max);
    }

    /// A place for a session; `lowered` is how many the owner may have if that is fewer than everybody may.
    pub(super) fn permits(&self, owner: &str, lowered: Option<usize>) -> Result<Permits, CreateError> {
        let total = self.shared.total.clone().try_acquire_owned().map_err(|_| CreateError::Total(self.shared.max))?;
        let max = self.shared.max_per_subject;
        // The entry is locked while the permit is taken, so it cannot be removed in between.
        let subject = self.shared.subjects.entry(owner.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(max)));
        if let Some(lowered) = lowered.filter(|lowered| max - subject.available_permits() >= *lowered) {
            return Err(CreateError::PerSubject(lowered));
        }
        let own = subject.clone().try_acquire_owned().map_err(|_| CreateError::PerSubject(max))?;
        Ok((total, own))
    }

    /// Where what somebody does is counted.
    pub fn account(&self, owner: &Owner) -> Account {
        self.shared.quotas.account(&owner.name, owner.caps)
    }

    /// The quotas of every subject.
    pub fn quotas(&self) -> Quotas {
        self.shared.quotas.clone()
    }

    /// Sessions that count to the cap of a subject, and that cap.
    pub fn share(&self, owner: &str) -> (usize, usize) {
        let max = self.shared.max_per_subject;
        let left = self.shared.subjects.get(owner).map_or(max, |held| held.available_permits());
        (max - left, max)
    }

    /// A session by its name.
    pub fn get(&self, id: &SessionId) -> Option<SessionHandle> {
        let handle = self.shared.sessions.get(id).map(|entry| entry.value().clone());
        handle.filter(|handle| handle.identity().lifespan == Lifespan::Kept)
    }

    /// The sessions of one owner, or all of them, oldest first.
    pub fn list(&self, owner: Option<&str>) -> Vec<SessionHandle> {
        let mut handles: Vec<_> = self
            .shared
            .sessions
            .iter()
            .filter(|entry| entry.identity().lifespan == Lifespan::Kept)
            .filter(|entry| owner.is_none_or(|owner| entry.identity().owner == owner))
            .map(|entry| entry.value().clone())
            .collect();
        handles.sort_by(|a, b| {
            let (a, b) = (a.identity(), b.identity());
            a.created_at.cmp(&b.created_at).then_with(|| a.id.cmp(&b.id))
        });
        handles
    }

    /// Whether sessions can be created.
    pub fn ready(&self) -> bool {
        !self.shared.draining.load(Ordering::Relaxed)
    }

    /// Refuses new sessions from now on.
    pub fn refuse(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Tells every session that the server stops, and waits until each has settled its log. What runs may end until
    /// `deadline`.
    pub async fn drain(&self, deadline: Instant) {
        self.refuse();
        let handles: Vec<_> = self.shared.sessions.iter().map(|entry| entry.value().clone()).collect();
        let drained = handles.into_iter().map(|handle| async move {
            let (reply, answer) = oneshot::channel();
            if handle.commands.send(Command::Drain(deadline, reply)).await.is_ok() {
                let _ = answer.await;
            }
        });
        futures::future::join_all(drained).await;
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.quotas.save();
    }
}

fn first_snapshot(identity: &Identity) -> Snapshot {
    Snapshot {
        status: SessionStatus::Active,
        execution_state: ExecutionState::Starting,
        last_activity: identity.created_at,
        expression_count: 0,
        expires_at: None,
        idle_at: None,
        ended: None,
    }
}

/// 22 letters and digits: 131 bits that nobody can guess (SEC-004).
fn new_session_id() -> SessionId {
    use rand::distr::{Alphanumeric, SampleString};
    Alphanumeric.sample_string(&mut rand::rng(), 22).parse().expect("22 letters and digits are an id")
}

fn unavailable(error: &BootError) -> CreateError {
    tracing::error!(error = error as &dyn std::error::Error, "no interpreter can be started");
    CreateError::SandboxUnavailable(error.to_string())
}

fn internal(error: &(dyn std::error::Error + 'static)) -> CreateError {
    tracing::error!(error, "a session cannot be stored");
    CreateError::Internal
}
