//! What a token allows, by the names in its claim `scope`.

/// What a token may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// `tool:execute`: whatever creates, runs or changes; implies reading.
    Execute = 1,
    /// `session:read`
    Read = 2,
    /// `sandbox:relaxed`
    Relaxed = 4,
    /// `admin`: sees everybody's sessions.
    Admin = 8,
    /// `metrics:read`
    MetricsRead = 16,
    /// `audit:read`
    AuditRead = 32,
}

impl Scope {
    /// Every one of them.
    pub const ALL: [Self; 6] =
        [Self::Execute, Self::Read, Self::Relaxed, Self::Admin, Self::MetricsRead, Self::AuditRead];

    /// Its name in the claim `scope`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Execute => "tool:execute",
            Self::Read => "session:read",
            Self::Relaxed => "sandbox:relaxed",
            Self::Admin => "admin",
            Self::MetricsRead => "metrics:read",
            Self::AuditRead => "audit:read",
        }
    }
}

/// A set of scopes. Names that are not ours are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Reads the claim `scope`: names with spaces between them.
    pub fn parse(text: &str) -> Self {
        let mut set = 0;
        for name in text.split_ascii_whitespace() {
            for scope in Scope::ALL {
                if scope.name() == name {
                    set |= scope as u8;
                }
            }
        }
        if set & Scope::Execute as u8 != 0 {
            set |= Scope::Read as u8;
        }
        Self(set)
    }

    /// The names of all that it has, also of what is implied.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope)).map(Scope::name)
    }

    /// Whether the set has it.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope as u8 != 0
    }
}
