//! Statements: what a reviewer signs, byte for byte.

use gate::{
    approval::{self, Expect, FORMAT, LIFE_MAX, Reach, Scope, Statement, StatementError},
    chain::Place,
    digest::{Digest, Domain},
    id::{SessionId, ToolName},
    nonce::Nonce,
};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000_000;

fn digest(of: u64) -> Digest {
    Digest::of(Domain::Call, &of.to_be_bytes())
}

fn nonce(of: u64) -> Nonce {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&of.to_be_bytes());
    Nonce(bytes)
}

fn session(of: u64) -> SessionId {
    SessionId::parse(&format!("{of:016x}")).unwrap()
}

/// A statement whose every field says what `fields` says.
fn statement(fields: [u64; 12]) -> Statement {
    let [
        audience,
        call,
        record,
        position,
        epoch,
        expires,
        drawn,
        policy,
        reach,
        until,
        of,
        tool,
    ] = fields;
    Statement {
        audience: digest(audience),
        call: digest(call),
        decision: Place {
            digest: digest(record),
            position,
        },
        epoch: nonce(epoch),
        expires,
        format: FORMAT,
        nonce: nonce(drawn),
        policy: digest(policy),
        scope: Scope {
            reach: match reach % 3 {
                0 => Reach::Once,
                1 => Reach::Call,
                _ => Reach::Target,
            },
            until: (until > 0).then_some(until),
        },
        session: session(of),
        tool: ToolName::parse(&format!("t{tool}")).unwrap(),
    }
}

fn plain() -> Statement {
    statement([1, 2, 3, 4, 5, NOW + 60_000, 7, 8, 0, 0, 11, 12])
}

fn expected(tool: &ToolName) -> Expect<'_> {
    Expect {
        audience: digest(1),
        epoch: nonce(5),
        call: digest(2),
        session: session(11),
        policy: digest(8),
        tool,
        now_ms: NOW,
    }
}

proptest! {
    #[test]
    fn of_one_statement_there_is_one_text_and_of_two_there_are_two(
        a in prop::array::uniform12(0..4_u64),
        b in prop::array::uniform12(0..4_u64),
    ) {
        let (a, b) = (statement(a), statement(b));
        let (left, right) = (a.to_bytes().unwrap(), b.to_bytes().unwrap());
        prop_assert_eq!(&Statement::read(&left).unwrap(), &a);
        prop_assert_eq!(a == b, left == right);
        prop_assert_eq!(a == b, Statement::digest_of(&left) == Statement::digest_of(&right));
    }

    #[test]
    fn a_statement_with_a_byte_changed_is_another_or_none(at in 0..2_000_usize, to: u8) {
        let bytes = plain().to_bytes().unwrap();
        let mut changed = bytes.clone();
        let at = at % changed.len();
        prop_assume!(changed[at] != to);
        changed[at] = to;
        if let Ok(read) = Statement::read(&changed) {
            prop_assert_ne!(read, plain());
        }
        prop_assert_ne!(Statement::digest_of(&changed), Statement::digest_of(&bytes));
    }

    #[test]
    fn a_statement_that_is_cut_off_or_followed_by_anything_is_none(end in 0..2_000_usize, more: u8) {
        let bytes = plain().to_bytes().unwrap();
        let cut = &bytes[..end % bytes.len()];
        prop_assert!(Statement::read(cut).is_err());
        let mut longer = bytes.clone();
        longer.push(more);
        prop_assert!(Statement::read(&longer).is_err());
    }
}

#[test]
fn what_is_not_written_was_not_signed() {
    let text = String::from_utf8(plain().to_bytes().unwrap()).unwrap();
    assert!(
        text.contains(r#""scope":{"reach":"once","until":null}"#),
        "{text}"
    );
    for (from, to) in [
        // serde would fill it in.
        (r#","until":null"#, ""),
        // An order of its own, blanks, and what nobody knows.
        (
            r#"{"reach":"once","until":null}"#,
            r#"{"until":null,"reach":"once"}"#,
        ),
        (r#""format":1"#, r#""format": 1"#),
        (r#""format":1"#, r#""format":1,"more":1"#),
        (r#""format":1"#, r#""format":1,"format":1"#),
        (r#""format":1"#, r#""format":1.0"#),
    ] {
        let other = text.replace(from, to);
        assert_ne!(other, text, "{from}");
        assert!(Statement::read(other.as_bytes()).is_err(), "{other}");
    }
    let other = text.replace(r#""format":1"#, r#""format":2"#);
    assert_eq!(
        Statement::read(other.as_bytes()),
        Err(StatementError::Format { found: 2 })
    );
}

#[test]
fn a_statement_is_for_one_vault_run_session_policy_tool_and_call_and_for_now() {
    let tool = ToolName::parse("t12").unwrap();
    let expect = expected(&tool);
    assert_eq!(plain().admit(&expect), Ok(()));
    let other = ToolName::parse("t13").unwrap();
    for (expect, error) in [
        (
            Expect {
                audience: digest(9),
                ..expect
            },
            StatementError::Audience,
        ),
        (
            Expect {
                epoch: nonce(9),
                ..expect
            },
            StatementError::Epoch,
        ),
        (
            Expect {
                session: session(9),
                ..expect
            },
            StatementError::Session,
        ),
        (
            Expect {
                policy: digest(9),
                ..expect
            },
            StatementError::Policy,
        ),
        (
            Expect {
                tool: &other,
                ..expect
            },
            StatementError::Tool,
        ),
        (
            Expect {
                call: digest(9),
                ..expect
            },
            StatementError::Call,
        ),
        (
            Expect {
                now_ms: NOW + 60_000,
                ..expect
            },
            StatementError::Expired,
        ),
        (
            Expect {
                now_ms: NOW + 60_000 - LIFE_MAX - 1,
                ..expect
            },
            StatementError::Life,
        ),
    ] {
        assert_eq!(plain().admit(&expect), Err(error));
    }
}

#[test]
fn a_statement_lets_one_call_through_and_ends_at_the_earlier_of_its_times() {
    let tool = ToolName::parse("t12").unwrap();
    assert_eq!(plain().is_single(), Ok(()));
    for reach in [Reach::Call, Reach::Target] {
        let wide = Statement {
            scope: Scope { reach, until: None },
            ..plain()
        };
        assert_eq!(wide.is_single(), Err(StatementError::Reach));
    }
    let until = |until| Statement {
        scope: Scope {
            until: Some(until),
            ..Scope::ONCE
        },
        ..plain()
    };
    assert_eq!(
        until(NOW).admit(&expected(&tool)),
        Err(StatementError::Expired)
    );
    assert_eq!(until(NOW + 1).admit(&expected(&tool)), Ok(()));
    assert_eq!(approval::NAMESPACE, "custody-approval@v1");
}
