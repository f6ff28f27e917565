//! Whether the layers of a session suffice. A session does not start with less.

use custody_wire::{
    layer::{Layer, Report, Status},
    profile::{Profile, requires},
    supervise::StartRefusal,
};

/// Checks that every layer that `profile` requires is there and full. Only what a session has no use for may be not
/// needed: an id map without a workspace.
pub(super) fn suffices(
    profile: Profile,
    layers: &[Report],
    workspace: bool,
) -> Result<(), StartRefusal> {
    for layer in Layer::ALL
        .into_iter()
        .filter(|layer| requires(profile, *layer))
    {
        let refusal = |detail: String| {
            Err(StartRefusal::Layer {
                layer,
                profile: profile.as_str().into(),
                detail,
            })
        };
        let mut reports = layers.iter().filter(|report| report.layer == layer);
        let status = match (reports.next(), reports.next()) {
            (None, _) => return refusal("it was not reported".into()),
            (Some(_), Some(_)) => return refusal("it was reported twice".into()),
            (Some(report), None) => &report.status,
        };
        match status {
            Status::Full => {}
            Status::NotNeeded if layer == Layer::IdMap && !workspace => {}
            Status::NotNeeded => return refusal("it is needed and was left out".into()),
            Status::None { step, errno } => {
                return refusal(format!("{step}{}", in_words(*errno)));
            }
            Status::Partial { missing } => return refusal(format!("missing: {missing}")),
        }
    }
    Ok(())
}

/// Checks the layers of a program of ours: whatever it reports holds, and these are among it.
pub(super) fn service_suffices(layers: &[Report], network: bool) -> Result<(), String> {
    let needed = [
        Layer::Capabilities,
        Layer::Landlock,
        Layer::NoNewPrivs,
        Layer::Seccomp,
        Layer::Uid,
    ];
    let needed = needed
        .into_iter()
        .chain((!network).then_some(Layer::NetworkNamespace));
    for layer in needed {
        let full = layers
            .iter()
            .any(|report| report.layer == layer && report.status == Status::Full);
        if !full {
            return Err(format!("layer `{}` is not full", layer.name()));
        }
    }
    let weak = layers
        .iter()
        .find(|report| matches!(report.status, Status::None { .. } | Status::Partial { .. }));
    weak.map_or(Ok(()), |report| {
        Err(format!(
            "layer `{}` is not full: {:?}",
            report.layer.name(),
            report.status
        ))
    })
}

/// ` (EPERM: Operation not permitted)`, or nothing for 0.
pub(super) fn in_words(errno: i32) -> String {
    if errno == 0 {
        String::new()
    } else {
        format!(" ({})", nix::errno::Errno::from_raw(errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(status: &Status) -> Vec<Report> {
        Layer::ALL
            .into_iter()
            .map(|layer| Report {
                layer,
                status: status.clone(),
            })
            .collect()
    }

    #[test]
    fn every_layer_must_be_full_and_each_that_is_not_is_named() {
        suffices(Profile::Hardened, &all(&Status::Full), true).unwrap();
        let weaker = [
            Status::NotNeeded,
            Status::Partial {
                missing: "half".into(),
            },
            Status::None {
                step: "landlock_restrict_self(2)".into(),
                errno: 1,
            },
        ];
        for status in weaker {
            for (index, layer) in Layer::ALL.into_iter().enumerate() {
                let mut reports = all(&Status::Full);
                reports[index].status = status.clone();
                let refused = suffices(Profile::Hardened, &reports, true).unwrap_err();
                assert!(matches!(&refused, StartRefusal::Layer { layer: l, .. } if *l == layer));
            }
        }
    }

    #[test]
    fn a_layer_that_nobody_reported_or_two_reported_is_not_there() {
        let mut missing = all(&Status::Full);
        let taken = missing.pop().unwrap();
        assert!(suffices(Profile::Hardened, &missing, true).is_err());
        let mut twice = all(&Status::Full);
        twice.push(taken);
        assert!(suffices(Profile::Hardened, &twice, true).is_err());
    }

    #[test]
    fn only_the_id_map_may_be_not_needed_and_only_without_a_workspace() {
        let mut reports = all(&Status::Full);
        for report in &mut reports {
            if report.layer == Layer::IdMap {
                report.status = Status::NotNeeded;
            }
        }
        suffices(Profile::Hardened, &reports, false).unwrap();
        suffices(Profile::Hardened, &reports, true).unwrap_err();
    }

    #[test]
    fn a_profile_does_without_what_it_does_not_require_and_nothing_else() {
        for profile in Profile::ALL {
            for (index, layer) in Layer::ALL.into_iter().enumerate() {
                let mut reports = all(&Status::Full);
                reports[index].status = Status::None {
                    step: "bpf(2)".into(),
                    errno: 1,
                };
                let suffices = suffices(profile, &reports, true).is_ok();
                assert_eq!(suffices, !requires(profile, layer), "{profile:?} {layer:?}");
            }
        }
    }

    #[test]
    fn a_service_needs_its_network_namespace_unless_it_has_the_hosts() {
        let mut reports = all(&Status::Full);
        reports.retain(|report| report.layer != Layer::NetworkNamespace);
        service_suffices(&reports, true).unwrap();
        service_suffices(&reports, false).unwrap_err();
        reports.clear();
        service_suffices(&reports, true).unwrap_err();
    }
}
