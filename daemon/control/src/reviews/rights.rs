//! Who may see a call, and who may answer for it.

use custody_approvals::{Asked, Heading};
use custody_config::{Caller, Question, Review, Reviews};
use custody_wire::profile::Profile;
use gate::{approval::Needs, mutant::Mutant};

use super::Desk;
use crate::caller;

/// Why a caller may not answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum NotYours {
    /// Nothing inside a session answers for it.
    #[error("a uid that is reserved for sessions answers nothing")]
    Inside,
    /// No rule admits him.
    #[error(
        "uid {uid} may not answer for this call; a `[[review]]` rule of custodyd.toml says who may"
    )]
    NoRule {
        /// His uid.
        uid: u32,
    },
    /// It is his own session, and the rule wants another.
    #[error(
        "the session is your own, and the `[[review]]` rule is `separate`: another user must answer"
    )]
    Own,
    /// It is his own session, and so does the profile.
    #[error(
        "the session is your own, and under `hardened` a program of yours could type this: another user \
         must answer (a `[[review]]` rule of custodyd.toml says who), or the tool's policy must want a \
         signature (`confirm = \"signature\"`)"
    )]
    Hardened,
}

impl Desk {
    /// Whether `caller` may answer.
    pub(super) fn may_answer(
        &self,
        caller: &Caller,
        asked: &Asked,
        needs: Needs,
        profile: Option<Profile>,
    ) -> Result<(), NotYours> {
        if Mutant::ControlReviewerRights.is_on() {
            return Ok(());
        }
        caller::outside(&self.uids, caller).map_err(|_inside| NotYours::Inside)?;
        let question = Question {
            owner: asked.caller,
            policy: &asked.policy,
            tool: &asked.tool,
            classes: &asked.classes,
        };
        match Review::ask(&self.rules, caller, &question) {
            Reviews::Never => return Err(NotYours::NoRule { uid: caller.uid }),
            Reviews::OwnSession => return Err(NotYours::Own),
            Reviews::May => {}
        }
        // A signature is checked by the vault, and no program of his makes one without his key.
        let alone = caller.uid == asked.caller && needs == Needs::Approval;
        match profile {
            // A session whose profile is not known yet is held to the strictest.
            None | Some(Profile::Hardened) if alone => Err(NotYours::Hardened),
            None | Some(Profile::Dev | Profile::Hardened | Profile::Standard) => Ok(()),
        }
    }

    /// Whether `caller` may see it: whoever may answer by some rule, and whose session it is.
    pub(super) fn may_see(rules: &[Review], caller: &Caller, heading: &Heading) -> bool {
        let question = Question {
            owner: heading.caller,
            policy: &heading.policy,
            tool: &heading.tool,
            classes: &heading.classes,
        };
        caller.uid == 0
            || caller.uid == heading.caller
            || Review::ask(rules, caller, &question) != Reviews::Never
    }
}

/// What [`Desk::may_see`] looks at.
pub(super) fn heading(asked: &Asked) -> Heading {
    Heading {
        key: asked.key(),
        caller: asked.caller,
        instance: asked.instance.clone(),
        policy: asked.policy.clone(),
        tool: asked.tool.clone(),
        classes: asked.classes.clone(),
    }
}
