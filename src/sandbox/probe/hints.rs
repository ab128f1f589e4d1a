//! What usually stands behind a refused namespace or mount, read from where it leaves traces.

use std::fs;

/// Sysctls that refuse namespaces, each with the value at which they do.
const SYSCTLS: [(&str, &str); 3] = [
    ("kernel/unprivileged_userns_clone", "0"),
    ("user/max_user_namespaces", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
];

/// Adds the traces to a reason, if there are any.
pub(super) fn with(reason: &str) -> String {
    let traces = traces(|path| fs::read_to_string(path).ok());
    if traces.is_empty() { reason.to_owned() } else { format!("{reason} ({})", traces.join(", ")) }
}

fn traces(read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let value = |path: &str| read(path).map(|text| text.trim_matches(['\0', '\n', ' ']).to_owned());
    let sysctl = |name: &str| value(&format!("/proc/sys/{name}"));
    let mut traces: Vec<String> = SYSCTLS
        .iter()
        .filter(|(name, refusing)| sysctl(name).as_deref() == Some(*refusing))
        .map(|(name, refusing)| format!("{}={refusing}", name.replace('/', ".")))
        .collect();
    // Yama refuses no namespace, but at 2 and 3 it keeps a supervisor from looking into its children.
    if let Some(scope) = sysctl("kernel/yama/ptrace_scope").filter(|scope| matches!(scope.as_str(), "2" | "3")) {
        traces.push(format!("kernel.yama.ptrace_scope={scope}"));
    }
    if let Some(profile) = value("/proc/self/attr/apparmor/current").filter(|p| !p.is_empty() && p != "unconfined") {
        traces.push(format!("AppArmor profile {profile}"));
    }
    let status = value("/proc/self/status").unwrap_or_default();
    if status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2")) {
        traces.push("a seccomp filter is in force, as in a container".to_owned());
    }
    traces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_of_a_restricted_host_are_named() {
        let found = traces(|path| {
            let text = match path {
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns" => "1\n",
                "/proc/sys/user/max_user_namespaces" => "9999\n",
                "/proc/sys/kernel/yama/ptrace_scope" => "3\n",
                "/proc/self/attr/apparmor/current" => "docker-default (enforce)\n",
                "/proc/self/status" => "Name:\tx\nSeccomp:\t2\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        let wanted = [
            "kernel.apparmor_restrict_unprivileged_userns=1",
            "kernel.yama.ptrace_scope=3",
            "AppArmor profile docker-default (enforce)",
            "a seccomp filter is in force, as in a container",
        ];
        assert_eq!(found, wanted);
        assert_eq!(traces(|_| None), Vec::<String>::new());
    }
}
