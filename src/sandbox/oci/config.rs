//! `config.json`: what the runtime is to make around our init. The root is finished when the runtime sees it, so hardly
//! anything of it is named here.

use std::io;

use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Capabilities, Capability, Linux, LinuxBuilder, LinuxCapabilitiesBuilder, LinuxIdMapping, LinuxIdMappingBuilder,
    LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType, Mount, MountBuilder, Process, ProcessBuilder,
    RootBuilder, SpecBuilder, UserBuilder,
};

use super::ROOT;
use crate::sandbox::rights::{INIT_ID, PAYLOAD_ID};
use crate::sandbox::{Identity, policy};

/// The rights of init when it begins, all of them within its user namespace. It keeps the first three; the others serve to
/// exchange `/proc`, to enter a cgroup namespace, to forbid user namespaces, and to lock itself.
const RIGHTS: [Capability; 6] = [
    Capability::Kill,
    Capability::Setuid,
    Capability::Setgid,
    Capability::Setpcap,
    Capability::SysAdmin,
    Capability::SysResource,
];

/// All but the cgroup namespace: init enters it once it is in its cgroup.
const NAMESPACES: [LinuxNamespaceType; 6] = [
    LinuxNamespaceType::User,
    LinuxNamespaceType::Mount,
    LinuxNamespaceType::Pid,
    LinuxNamespaceType::Network,
    LinuxNamespaceType::Ipc,
    LinuxNamespaceType::Uts,
];

/// The content of the file, for init with these arguments.
pub(super) fn describe(identity: Identity, has_files: bool, init: Vec<String>) -> io::Result<Vec<u8>> {
    let spec = SpecBuilder::default()
        .version("1.0.2")
        .root(RootBuilder::default().path(ROOT).readonly(true).build().map_err(io::Error::other)?)
        .hostname("sandbox")
        .process(process(init).map_err(io::Error::other)?)
        .mounts(mounts(has_files).map_err(io::Error::other)?)
        .linux(linux(identity).map_err(io::Error::other)?)
        .build()
        .map_err(io::Error::other)?;
    Ok(serde_json::to_vec(&spec)?)
}

fn process(init: Vec<String>) -> Result<Process, OciSpecError> {
    let rights: Capabilities = RIGHTS.into_iter().collect();
    let capabilities = LinuxCapabilitiesBuilder::default()
        .bounding(rights.clone())
        .effective(rights.clone())
        .permitted(rights)
        .inheritable(Capabilities::new())
        .ambient(Capabilities::new())
        .build()?;
    ProcessBuilder::default()
        .terminal(false)
        .user(UserBuilder::default().uid(INIT_ID).gid(INIT_ID).build()?)
        .args(init)
        .env(Vec::new())
        .cwd("/")
        .capabilities(capabilities)
        .rlimits(Vec::new())
        .no_new_privileges(true)
        .build()
}

/// A runtime needs a whole `/proc`, which init exchanges. That `/dev` is named keeps a runtime from filling it; crun does
/// not see what is mounted below it unless that is named, too.
fn mounts(has_files: bool) -> Result<Vec<Mount>, OciSpecError> {
    let options = |options: &[&str]| options.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let proc = MountBuilder::default()
        .destination("/proc")
        .typ("proc")
        .source("proc")
        .options(options(&["nosuid", "nodev", "noexec"]))
        .build()?;
    let bind = |path: &str, with: &[&str]| {
        let source = format!("{ROOT}{path}");
        MountBuilder::default().destination(path).typ("bind").source(source).options(options(with)).build()
    };
    let mut mounts = vec![proc, bind("/dev", &["rbind", "ro", "nosuid", "nodev", "noexec"])?];
    for (device, _) in policy::DEVICES {
        mounts.push(bind(device, &["bind", "ro", "nosuid", "noexec"])?);
    }
    if has_files {
        mounts.push(bind("/dev/shm", &["bind", "nosuid", "nodev", "noexec"])?);
    }
    Ok(mounts)
}

fn linux(identity: Identity) -> Result<Linux, OciSpecError> {
    let namespaces = NAMESPACES.map(|typ| LinuxNamespaceBuilder::default().typ(typ).build());
    let ids = match identity {
        Identity::Mapped { payload, init } => vec![(PAYLOAD_ID, (payload, payload)), (INIT_ID, (init, init))],
        // Runtimes insist on somebody who is root inside, and there is nobody else.
        Identity::Single => vec![(INIT_ID, identity.payload_owner())],
        Identity::Plain { .. } => return Err(OciSpecError::Other("a container needs namespaces".to_owned())),
    };
    let mapping = |inside: u32, outside: u32| {
        LinuxIdMappingBuilder::default().container_id(inside).host_id(outside).size(1_u32).build()
    };
    let uids =
        ids.iter().map(|&(inside, (uid, _))| mapping(inside, uid)).collect::<Result<Vec<LinuxIdMapping>, _>>()?;
    let gids =
        ids.iter().map(|&(inside, (_, gid))| mapping(inside, gid)).collect::<Result<Vec<LinuxIdMapping>, _>>()?;
    let mut linux = LinuxBuilder::default()
        .namespaces(namespaces.into_iter().collect::<Result<Vec<LinuxNamespace>, _>>()?)
        .uid_mappings(uids)
        .gid_mappings(gids)
        // Linux gives a new `/proc` only to who sees a whole one.
        .masked_paths(Vec::new())
        .readonly_paths(Vec::new())
        .build()?;
    linux.set_resources(None);
    Ok(linux)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(identity: Identity) -> serde_json::Value {
        serde_json::from_slice(&describe(identity, true, vec!["/init".into()]).expect("a description")).expect("json")
    }

    #[test]
    fn a_container_has_every_namespace_and_the_sessions_users_alone() {
        let config = described(Identity::Mapped { payload: 200_002, init: 200_003 });
        let kinds: Vec<_> = config["linux"]["namespaces"].as_array().expect("a list").iter().collect();
        let kinds: Vec<_> = kinds.iter().filter_map(|it| it["type"].as_str()).collect();
        assert_eq!(kinds, ["user", "mount", "pid", "network", "ipc", "uts"]);
        let maps = serde_json::json!([
            {"hostID": 200_002, "containerID": 1000, "size": 1}, {"hostID": 200_003, "containerID": 0, "size": 1}
        ]);
        assert_eq!((&config["linux"]["uidMappings"], &config["linux"]["gidMappings"]), (&maps, &maps));
        assert_eq!(config["linux"]["resources"], serde_json::Value::Null, "cgroups are not the runtime's");
        assert_eq!(config["root"], serde_json::json!({"path": ROOT, "readonly": true}));
    }

    #[test]
    fn init_begins_with_few_rights_and_no_environment() {
        let process = &described(Identity::Single)["process"];
        assert_eq!(process["capabilities"]["bounding"].as_array().map(Vec::len), Some(RIGHTS.len()));
        assert_eq!((&process["noNewPrivileges"], &process["env"]), (&true.into(), &serde_json::json!([])));
        assert_eq!(process["args"], serde_json::json!(["/init"]));
    }
}
