//! From the table to classic BPF: a binary search over call numbers.
//!
//! The usual compilers make a chain of comparisons. When a filter is installed the kernel walks it once
//! for every call number, to learn which are always allowed (seccomp_cache_prepare(),
//! kernel/seccomp.c): a chain costs a start a third of a millisecond there, a search next to
//! nothing. Afterwards both cost the same.

use std::collections::BTreeMap;

use custody_sys::seccomp::sock_filter;
use nix::libc;

use super::table::{self, Test};

/// What happens with a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// The same whatever its arguments: a SECCOMP_RET_ value.
    Always(u32),
    /// EPERM when all tests of one rule match, allowed otherwise.
    Checked(Vec<Rule>),
}

/// All must match.
pub(crate) type Rule = &'static [(u8, Test)];

pub(crate) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
pub(crate) const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
pub(crate) const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// The program: another architecture is killed, numbers above [`table::NEWEST`] are absent, a
/// number without a verdict is allowed.
pub(crate) fn program(verdicts: BTreeMap<u32, Verdict>) -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE),
        jump(IF_EQUAL, audit_architecture(), 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
    ];
    program.extend(search(&ranges(verdicts)));
    program
}

/// Where each verdict begins to hold, in order, from 0 and without gaps.
fn ranges(verdicts: BTreeMap<u32, Verdict>) -> Vec<(u32, Verdict)> {
    let mut ranges: Vec<(u32, Verdict)> = Vec::new();
    let mut next = 0;
    let mut push = |start, verdict| match ranges.last() {
        Some((_, Verdict::Always(before))) if verdict == Verdict::Always(*before) => {}
        Some(_) | None => ranges.push((start, verdict)),
    };
    for (number, verdict) in verdicts.into_iter().filter(|(n, _)| *n <= table::NEWEST) {
        if number > next {
            push(next, Verdict::Always(ALLOW));
        }
        push(number, verdict);
        next = number.saturating_add(1);
    }
    if next <= table::NEWEST {
        push(next, Verdict::Always(ALLOW));
    }
    push(table::NEWEST.saturating_add(1), Verdict::Always(ABSENT));
    ranges
}

/// The number is in the accumulator.
fn search(ranges: &[(u32, Verdict)]) -> Vec<sock_filter> {
    let (low, high) = ranges.split_at(ranges.len() / 2);
    match (low, high) {
        ([], [(_, verdict)]) => leaf(verdict),
        (_, [(start, _), ..]) => {
            let (low, high) = (search(low), search(high));
            let mut code = match u8::try_from(low.len()) {
                Ok(over) => vec![jump(IF_AT_LEAST, *start, over, 0)],
                // A conditional jump reaches 255 instructions, an unconditional one all.
                Err(_far) => {
                    let far = u32::try_from(low.len()).unwrap_or(u32::MAX);
                    vec![jump(IF_AT_LEAST, *start, 0, 1), jump(ALWAYS, far, 0, 0)]
                }
            };
            code.extend(low);
            code.extend(high);
            code
        }
        // There is always a range: the numbers that are absent.
        (_, []) => vec![answer(ABSENT)],
    }
}

fn leaf(verdict: &Verdict) -> Vec<sock_filter> {
    match verdict {
        Verdict::Always(action) => vec![answer(*action)],
        Verdict::Checked(rules) => {
            let mut code: Vec<sock_filter> = rules.iter().flat_map(|rule| block(rule)).collect();
            code.push(answer(ALLOW));
            code
        }
    }
}

/// Answers if all tests match, falls through to what follows otherwise.
fn block(rule: Rule) -> Vec<sock_filter> {
    let mut code = vec![answer(REFUSE)];
    for (argument, test) in rule.iter().rev() {
        // From the end, so that the way out of the block is known.
        let out = u8::try_from(code.len()).unwrap_or(u8::MAX);
        let mut part = check(*argument, *test, out);
        part.append(&mut code);
        code = part;
    }
    code
}

/// Falls through when the test matches, skips `out` instructions behind itself otherwise.
fn check(argument: u8, test: Test, out: u8) -> Vec<sock_filter> {
    // struct seccomp_data: arguments of eight bytes from offset 16, the low half first.
    let low = 16_u32.saturating_add(u32::from(argument).saturating_mul(8));
    let masked = |mask, value| {
        vec![
            load(low),
            jump(MASK, mask, 0, 0),
            jump(IF_EQUAL, value, 0, out),
        ]
    };
    match test {
        Test::Is(value) => vec![load(low), jump(IF_EQUAL, value, 0, out)],
        Test::IsNot(value) => vec![load(low), jump(IF_EQUAL, value, out, 0)],
        Test::Has(bits) => masked(bits, bits),
        Test::HasAny(bits) => vec![load(low), jump(IF_ANY_BIT, bits, 0, out)],
        Test::Lacks(bits) => vec![load(low), jump(IF_ANY_BIT, bits, out, 0)],
        Test::Masked(mask, value) => masked(mask, value),
        Test::IsGiven => vec![
            load(low),
            jump(IF_EQUAL, 0, 0, 2),
            load(low.saturating_add(4)),
            jump(IF_EQUAL, 0, out, 0),
        ],
    }
}

/// AUDIT_ARCH_* (linux/audit.h).
const fn audit_architecture() -> u32 {
    if cfg!(target_arch = "x86_64") {
        0xc000_003e
    } else {
        0xc000_00b7
    }
}

// Classic BPF (linux/bpf_common.h, linux/seccomp.h).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// BPF_JMP | BPF_JA.
const ALWAYS: u16 = 0x05;
/// BPF_JMP | BPF_JEQ | BPF_K.
const IF_EQUAL: u16 = 0x15;
/// BPF_JMP | BPF_JGE | BPF_K.
const IF_AT_LEAST: u16 = 0x35;
/// BPF_JMP | BPF_JSET | BPF_K.
const IF_ANY_BIT: u16 = 0x45;
/// BPF_ALU | BPF_AND | BPF_K.
const MASK: u16 = 0x54;

const fn load(offset: u32) -> sock_filter {
    // BPF_LD | BPF_W | BPF_ABS.
    jump(0x20, offset, 0, 0)
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const fn answer(action: u32) -> sock_filter {
    // BPF_RET | BPF_K.
    jump(0x06, action, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Filter, table::Subject};

    /// The kernel's interpreter, for the instructions above.
    fn execute(
        program: &[sock_filter],
        architecture: u32,
        number: u32,
        arguments: [u64; 6],
    ) -> u32 {
        let word = |offset: u32| match offset {
            0 => number,
            4 => architecture,
            _ => {
                let argument = arguments[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) {
                    (argument & 0xffff_ffff) as u32
                } else {
                    (argument >> 32) as u32
                }
            }
        };
        let (mut accumulator, mut at) = (0_u32, 0_usize);
        for _step in 0..60 {
            let one = &program[at];
            at += 1;
            let taken = |holds: bool| usize::from(if holds { one.jt } else { one.jf });
            match one.code {
                0x20 => accumulator = word(one.k),
                0x05 => at += one.k as usize,
                0x15 => at += taken(accumulator == one.k),
                0x35 => at += taken(accumulator >= one.k),
                0x45 => at += taken(accumulator & one.k != 0),
                0x54 => accumulator &= one.k,
                0x06 => return one.k,
                other => panic!("instruction {other:#x}"),
            }
        }
        panic!("more than 60 steps for call {number}")
    }

    /// The table, read for what it says.
    fn wanted(verdicts: &BTreeMap<u32, Verdict>, number: u32, arguments: [u64; 6]) -> u32 {
        if number > table::NEWEST {
            return ABSENT;
        }
        let matches = |(argument, test): &(u8, Test)| {
            let whole = arguments[usize::from(*argument)];
            let low = (whole & 0xffff_ffff) as u32;
            match *test {
                Test::Is(value) => low == value,
                Test::IsNot(value) => low != value,
                Test::Has(bits) => low & bits == bits,
                Test::HasAny(bits) => low & bits != 0,
                Test::Lacks(bits) => low & bits == 0,
                Test::Masked(mask, value) => low & mask == value,
                Test::IsGiven => whole != 0,
            }
        };
        match verdicts.get(&number) {
            None => ALLOW,
            Some(Verdict::Always(action)) => *action,
            Some(Verdict::Checked(rules)) => {
                if rules.iter().any(|rule| rule.iter().all(matches)) {
                    REFUSE
                } else {
                    ALLOW
                }
            }
        }
    }

    #[test]
    fn the_program_answers_as_the_table_says() {
        let interesting = [
            0,
            1,
            2,
            3,
            4,
            5,
            6,
            8,
            10,
            16,
            40,
            0x1_0000_0000,
            0x5412,
            0x541c,
            0x541d,
            0x5423,
            0x4008_6602,
            0x401c_5820,
            0x4_0000,
            25,
            26,
            35,
            50,
            51,
            52,
            0x1_0000_5412,
            0o100,
            0o4000,
            0o2000,
            0o4755,
            0o755,
            0o20_200_002,
            0x8_0001,
            0x8_0002,
            0x8_0005,
            0x1000_0011,
            0x4000_0000,
            0xffff_ffff,
            u64::MAX,
        ];
        for subject in Subject::ALL {
            let verdicts = Filter::verdicts(subject);
            let program = program(verdicts.clone());
            for number in (0..600).chain([0x4000_0000, 0x4000_0029, u32::MAX]) {
                for a in interesting {
                    for b in interesting {
                        for arguments in
                            [[a, b, a, b, 0, 0], [a, b, b, a, 0, 0], [b, a, 0, b, a, 0]]
                        {
                            assert_eq!(
                                execute(&program, audit_architecture(), number, arguments),
                                wanted(&verdicts, number, arguments),
                                "{subject:?} {number} {arguments:x?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn another_architecture_is_killed_whatever_it_calls() {
        let program = program(Filter::verdicts(Subject::Session));
        for number in [0, 20, 59, 500] {
            let i386 = execute(&program, 0x4000_0003, number, [0; 6]);
            assert_eq!(i386, libc::SECCOMP_RET_KILL_PROCESS);
        }
    }

    #[test]
    fn a_session_may_less_than_a_service_and_both_less_than_all() {
        let session = Filter::verdicts(Subject::Session);
        let service = Filter::verdicts(Subject::Service);
        assert!(service.keys().all(|call| session.contains_key(call)));
        assert!(session.len() > service.len());
        let tracing = Filter::verdicts(Subject::TracingSession);
        let missing: Vec<&u32> = session
            .keys()
            .filter(|it| !tracing.contains_key(it))
            .collect();
        // kcmp, pidfd_getfd, process_vm_readv, process_vm_writev, ptrace; nothing else.
        assert_eq!(missing, [&101, &310, &311, &312, &438]);
        assert!(service.len() > 70, "{}", service.len());
    }

    #[test]
    fn far_jumps_reach_their_place() {
        // Every second number refused: more ranges than a conditional jump reaches.
        let verdicts: BTreeMap<u32, Verdict> = (0..table::NEWEST)
            .step_by(2)
            .map(|number| (number, Verdict::Always(REFUSE)))
            .collect();
        let program = program(verdicts.clone());
        for number in 0..500 {
            let got = execute(&program, audit_architecture(), number, [0; 6]);
            assert_eq!(got, wanted(&verdicts, number, [0; 6]), "{number}");
        }
    }
}
