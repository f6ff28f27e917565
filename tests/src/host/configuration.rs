//! The configuration file of one installation.

use super::{AGENTS, Host, Setup, UIDS_EACH_KIND};

impl Host {
    /// The file's text.
    pub(super) fn configuration(&self, setup: &Setup) -> String {
        let at = |name: &str| self.folder.join(name);
        let uid = |offset: u32| self.first_uid + offset;
        let names = |names: &mut dyn Iterator<Item = &String>| {
            names
                .map(|name| format!("{name:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut text = format!(
            "format = 1\n\n\
             [paths]\ncgroup = {:?}\npolicies = {:?}\nprograms = {:?}\nreviewers = {:?}\n\
             runtime = {:?}\nstate = {:?}\n\n\
             [users]\ncontrol = \"{}\"\ngate = \"{}\"\nresolver = \"{}\"\n\
             review = \"{}\"\nvault = \"{}\"\n\n\
             [uids]\nagents = {{ first = {}, count = {UIDS_EACH_KIND} }}\n\
             fronts = {{ first = {}, count = {UIDS_EACH_KIND} }}\nworkers = {{ first = {}, count = {UIDS_EACH_KIND} }}\n\n\
             [credentials]\n",
            self.cgroup,
            at("policies"),
            at("programs"),
            at("reviewers"),
            at("run"),
            at("state"),
            uid(301),
            uid(302),
            uid(304),
            uid(308),
            uid(303),
            uid(AGENTS),
            uid(700),
            uid(0),
        );
        for (label, file) in &setup.credentials {
            text.push_str(&format!("{label} = {{ file = {file:?} }}\n"));
        }
        text.push_str(&format!(
            "\n[[access]]\nuids = [{}]\npolicies = [{}]\nvalues = [{}]\nowned = [{}]\n",
            self.operator(),
            names(&mut setup.policies.iter().map(|(name, _)| name)),
            names(&mut setup.values.iter()),
            names(&mut setup.owned.iter()),
        ));
        text
    }
}
