//! What gives a wall that is missing: the flag, setting or version to ask for, by where the server runs.

use super::names;

/// What runs the server, as far as it leaves traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Docker,
    Podman,
    Kubernetes,
    Systemd,
    Machine,
}

/// What to do about a layer that is missing, in words that follow "to have it, ". Names what fits this place, or else
/// every place.
pub fn remedy(name: &str) -> String {
    told(name, find(|path| std::fs::exists(path).unwrap_or(false), |name| std::env::var_os(name).is_some()))
}

fn find(exists: impl Fn(&str) -> bool, variable: impl Fn(&str) -> bool) -> Where {
    match () {
        () if variable("KUBERNETES_SERVICE_HOST") => Where::Kubernetes,
        () if exists("/run/.containerenv") => Where::Podman,
        () if exists("/.dockerenv") => Where::Docker,
        () if variable("INVOCATION_ID") => Where::Systemd,
        () => Where::Machine,
    }
}

fn told(name: &str, place: Where) -> String {
    let text = match name {
        names::USER_NAMESPACE
        | names::MOUNT_NAMESPACE
        | names::PID_NAMESPACE
        | names::NETWORK_NAMESPACE
        | names::IPC_NAMESPACE
        | names::UTS_NAMESPACE
        | names::CGROUP_NAMESPACE => namespaces(place),
        names::PIVOT_ROOT | names::WORKING_DIRECTORY | names::SMALL_ROOT => mounts(place),
        names::PROC_MOUNT => proc(place),
        names::MEMORY_CGROUP | names::PIDS_CGROUP | names::CPU_CGROUP => cgroups(place),
        names::SESSION_UIDS => {
            "start the server as root, in a container with the capabilities CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, \
             SETPCAP and SETUID, as Docker gives them by itself (it drops what it does not need). With namespaces, all \
             sessions may also share one uid: then they alone keep them apart."
        }
        names::LANDLOCK => {
            "boot Linux 5.13 or newer with `landlock` among its security modules: lsm=landlock,… on the kernel's command \
             line, or CONFIG_LSM; in a container, let landlock_create_ruleset, landlock_add_rule and \
             landlock_restrict_self through its seccomp profile, as Docker does since 23.0."
        }
        names::LANDLOCK_SCOPES => "run Linux 6.12 or newer. With namespaces nothing depends on it.",
        names::SECCOMP | names::SECCOMP_LISTENER | names::EXEC_ONCE => {
            "use a kernel with CONFIG_SECCOMP_FILTER, 5.5 or newer; in a container, let the call seccomp through. A \
             runtime that listens to calls itself allows nobody else to (Docker and Podman do not)."
        }
        names::CGROUP_KILL => {
            "use Linux 5.14 and a writable cgroup v2. Without it a sandbox's first process is killed, and Linux kills the \
             rest with it."
        }
        _ => "see what was found.",
    };
    text.to_owned()
}

fn namespaces(place: Where) -> &'static str {
    match place {
        Where::Docker => {
            "start the container with --security-opt seccomp=deploy/seccomp.json, of the sources of this server, or a \
             profile of your own that lets clone3, unshare and setns through, and --security-opt apparmor=unconfined (or \
             a profile with `userns,`); not --privileged."
        }
        Where::Podman => {
            "start the container with --security-opt seccomp=deploy/seccomp.json, of the sources of this server, or a \
             profile of your own that lets clone3, unshare and setns through, and with SELinux --security-opt label=disable; not --privileged."
        }
        Where::Kubernetes => {
            "give the container securityContext.seccompProfile: type: Unconfined, or Localhost with a profile that lets \
             clone3, unshare and setns through, and appArmorProfile: type: Unconfined; not privileged: true."
        }
        Where::Systemd => {
            "take RestrictNamespaces=, PrivateUsers= and a SystemCallFilter= without @mount out of the service. Sysctls: \
             kernel.unprivileged_userns_clone=1, user.max_user_namespaces>0, \
             kernel.apparmor_restrict_unprivileged_userns=0 (or an AppArmor profile with `userns,`)."
        }
        Where::Machine => {
            "allow user namespaces. Sysctls: kernel.unprivileged_userns_clone=1, user.max_user_namespaces>0, \
             kernel.apparmor_restrict_unprivileged_userns=0 (or an AppArmor profile with `userns,`). In a container \
             (Docker, Podman): --security-opt seccomp=deploy/seccomp.json, of the sources of this server, or a profile of \
             your own that lets clone3, unshare and setns through, and --security-opt apparmor=unconfined; not --privileged. In a systemd service: no \
             RestrictNamespaces=."
        }
    }
}

fn mounts(place: Where) -> &'static str {
    match place {
        Where::Docker | Where::Podman | Where::Kubernetes => {
            "let fsopen, fsconfig, fsmount, open_tree, move_mount, mount_setattr, mount, umount2 and pivot_root through \
             the container's seccomp profile (--security-opt seccomp=unconfined does), and mounts through AppArmor \
             (--security-opt apparmor=unconfined); what was found names the call that was refused."
        }
        Where::Systemd | Where::Machine => {
            "use Linux 5.13 or newer and allow mounts in a user namespace: what was found names the call that was refused. \
             In a container let fsopen, fsconfig, fsmount, open_tree, move_mount, mount_setattr, mount, umount2 and \
             pivot_root through (--security-opt seccomp=unconfined); in a systemd service, @mount in SystemCallFilter=."
        }
    }
}

fn proc(place: Where) -> &'static str {
    match place {
        Where::Podman => "start the container with --security-opt unmask=ALL. Without it sandboxes have no /proc.",
        Where::Kubernetes => {
            "give the container securityContext.procMount: Unmasked. Without it sandboxes have no /proc, which few \
             programs notice."
        }
        Where::Docker | Where::Systemd | Where::Machine => {
            "in a container, start it with --security-opt systempaths=unconfined; in a systemd service, take \
             ProtectProc=, ProcSubset= and ProtectKernelTunables= out. Without it sandboxes have no /proc, which few \
             programs notice."
        }
    }
}

fn cgroups(place: Where) -> &'static str {
    match place {
        Where::Docker | Where::Podman => {
            "start the container with --cgroupns=private on a host with cgroup v2, and with a writable /sys/fs/cgroup \
             (Docker 28: --security-opt writable-cgroups=true; Podman: --security-opt unmask=/sys/fs/cgroup). Without it \
             the limits of the container hold for all sessions together."
        }
        Where::Kubernetes => {
            "there is no field for it: /sys/fs/cgroup is read-only in a pod that is not privileged. The pod's own limits \
             hold for all sessions together, and the server watches each."
        }
        Where::Systemd | Where::Machine => {
            "give the server a cgroup of its own: as a systemd service with Delegate=yes, or by `systemd-run --user \
             --scope -p Delegate=yes`. In a container: mount /sys/fs/cgroup writable, with cgroupns=private."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_has_a_remedy_everywhere() {
        for place in [Where::Docker, Where::Podman, Where::Kubernetes, Where::Systemd, Where::Machine] {
            for name in names::ALL {
                assert_ne!(told(name, place), "see what was found.", "{name}");
                assert!(told(name, place).ends_with('.'), "{name}: a sentence");
            }
        }
        assert_eq!(told("unknown", Where::Docker), "see what was found.");
    }

    #[test]
    fn the_flag_of_the_place_is_named() {
        for (place, name, flag) in [
            (Where::Docker, names::USER_NAMESPACE, "--security-opt seccomp="),
            (Where::Docker, names::USER_NAMESPACE, "apparmor=unconfined"),
            (Where::Docker, names::PROC_MOUNT, "--security-opt systempaths=unconfined"),
            (Where::Podman, names::PROC_MOUNT, "unmask=ALL"),
            (Where::Kubernetes, names::PID_NAMESPACE, "seccompProfile"),
            (Where::Systemd, names::USER_NAMESPACE, "RestrictNamespaces="),
            (Where::Systemd, names::MEMORY_CGROUP, "Delegate=yes"),
            (Where::Machine, names::USER_NAMESPACE, "kernel.unprivileged_userns_clone=1"),
            (Where::Machine, names::USER_NAMESPACE, "user.max_user_namespaces"),
            (Where::Machine, names::USER_NAMESPACE, "kernel.apparmor_restrict_unprivileged_userns=0"),
            (Where::Machine, names::LANDLOCK, "lsm=landlock,"),
        ] {
            assert!(told(name, place).contains(flag), "{place:?} {name}: {flag}");
        }
    }

    #[test]
    fn places_are_told_by_their_traces() {
        let by = |trace: &'static str| find(move |path| path == trace, move |name| name == trace);
        assert_eq!(by("/.dockerenv"), Where::Docker);
        assert_eq!(by("/run/.containerenv"), Where::Podman);
        assert_eq!(by("KUBERNETES_SERVICE_HOST"), Where::Kubernetes);
        assert_eq!(by("INVOCATION_ID"), Where::Systemd);
        assert_eq!(by(""), Where::Machine);
    }
}
