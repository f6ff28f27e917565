//! How long the index of value origin takes, and how much memory: `cargo xtask bench index`.
//!
//! Text is made here, the same at every run. Times are of one thread and of nothing else; what the
//! machine does besides is in the 99th percentile.

use std::{
    error::Error,
    fmt::Write as _,
    hint::black_box,
    io::{Write as _, stdout},
    time::{Duration, Instant},
};

use gate::{
    digest::{Digest, Domain},
    id::ToolName,
    json::{Limits, Value, parse},
    lineage::{Budget, Key, Label, Labels, Lineage, Source},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The size of one result.
const RESULT: usize = 4 << 10;

const TASK: &str = "Please pay 98.70 EUR to boss@acme.example for 'bill-december-2023.txt' and book \
                    Le Marais Boutique from January 11th to January 15th 2025; tell #general.";

fn main() -> Result<()> {
    let mut out = stdout().lock();
    writeln!(
        out,
        "{:12} {:>8} {:>11} {:>11} {:>11} {:>11} {:>8} {:>9}",
        "recording", "results", "4 KB p50", "4 KB p99", "text", "memory", "×text", "ns/byte"
    )?;
    for kind in Kind::ALL {
        recording(&mut out, kind)?;
    }
    writeln!(
        out,
        "\n{:34} {:>14} {:>14} {:>14}",
        "one question, p50 / p99", "10 results", "100 results", "at the cap"
    )?;
    questions(&mut out)
}

#[derive(Clone, Copy)]
enum Kind {
    /// Lists of messages as JSON, each field under its label.
    Records,
    /// One text.
    Prose,
    /// One text in Cyrillic.
    Cyrillic,
    /// Nothing but codes that never come again.
    Codes,
    /// Nothing but base64.
    Base64,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Records,
        Self::Prose,
        Self::Cyrillic,
        Self::Codes,
        Self::Base64,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Prose => "prose",
            Self::Cyrillic => "cyrillic",
            Self::Codes => "codes",
            Self::Base64 => "base64",
        }
    }
}

fn recording(out: &mut impl std::io::Write, kind: Kind) -> Result<()> {
    let labels = labels()?;
    let mut random = Random(1);
    let mut lineage = session()?;
    let mut times = Vec::new();
    let mut results = 0_usize;
    let mut at_cap = false;
    while !at_cap {
        let value = result(&mut random, kind)?;
        let source = source(results)?;
        let start = Instant::now();
        let recorded = lineage.record_value(source, &value, &labels);
        times.push(start.elapsed());
        at_cap = recorded.is_err();
        results += 1;
        if at_cap || results == 10 || results == 100 || results == 1_000 {
            let recent = times.split_off(times.len().saturating_sub(200));
            let usage = if at_cap {
                last_usage(&mut Random(1), kind, results - 1)?
            } else {
                lineage.usage()
            };
            let memory = usage.memory as f64;
            writeln!(
                out,
                "{:12} {:>8} {:>11} {:>11} {:>11} {:>11} {:>8.2} {:>9.1}",
                kind.name(),
                results,
                shown(percentile(&recent, 50)),
                shown(percentile(&recent, 99)),
                usage.recorded,
                usage.memory,
                memory / usage.recorded as f64,
                percentile(&recent, 50).as_secs_f64() * 1e9 / RESULT as f64,
            )?;
        }
    }
    Ok(())
}

/// What the index took before the result that was too much.
fn last_usage(random: &mut Random, kind: Kind, results: usize) -> Result<gate::lineage::Usage> {
    let labels = labels()?;
    let mut lineage = session()?;
    for number in 0..results {
        let value = result(random, kind)?;
        lineage.record_value(source(number)?, &value, &labels)?;
    }
    Ok(lineage.usage())
}

fn questions(out: &mut impl std::io::Write) -> Result<()> {
    let sizes = [10, 100, usize::MAX].map(filled);
    let [few, many, full] = sizes;
    let sessions = [few?, many?, full?];
    let call = r#"{"recipients":["boss@acme.example","w17@d3.example"],"cc":["new@novel.example"],
        "subject":"the bill of december","date":"2025-01-15 10:00","amount":98.7,"id":"m-10451216379200822465-1",
        "attachments":["bill-december-2023.txt"],"hotel":"Le Marais Boutique"}"#;
    for (name, value) in [
        ("authoritative address", r#""boss@acme.example""#),
        ("authoritative phrase", r#""Le Marais Boutique""#),
        ("authoritative number", "98.7"),
        ("authoritative date", r#""2025-01-15""#),
        ("minted id", r#""m-10451216379200822465-1""#),
        ("untrusted address", r#""w17@d3.example""#),
        ("novel address", r#""someone.else@novel-host.example""#),
        ("novel code", r#""GB29NWBK60161331926819""#),
        (
            "novel title of seven words",
            r#""Qz wants xw and vk with jq now""#,
        ),
        ("a call's ten sinks", call),
    ] {
        let value = parse(value.as_bytes(), &Limits::CALL)?;
        write!(out, "{name:34}")?;
        for lineage in &sessions {
            let times = asked(lineage, &value);
            let both = format!(
                "{:.2}/{:.2}",
                micros(percentile(&times, 50)),
                micros(percentile(&times, 99))
            );
            write!(out, " {both:>11} µs")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Each question is asked with other questions between, so that the processor's caches hold what
/// they would hold in a daemon.
fn asked(lineage: &Lineage, value: &Value) -> Vec<Duration> {
    let mut random = Random(9);
    let mut times = Vec::new();
    for _ in 0..2_000 {
        for _ in 0..4 {
            let other = Value::Text(format!("{}@{}.example", random.word(), random.word()));
            drop(black_box(lineage.origin(&other)));
        }
        let start = Instant::now();
        let origin = black_box(lineage.origin(black_box(value)));
        times.push(start.elapsed());
        drop(origin);
    }
    times
}

fn filled(results: usize) -> Result<Lineage> {
    let labels = labels()?;
    let mut random = Random(1);
    let mut lineage = session()?;
    for number in 0..results {
        let value = result(&mut random, Kind::Records)?;
        let usage = lineage.usage();
        // The next would be too much.
        if usage.text + 2 * RESULT > Budget::DEFAULT.text
            || usage.memory + 8 * RESULT > Budget::DEFAULT.memory
        {
            break;
        }
        lineage.record_value(source(number)?, &value, &labels)?;
    }
    Ok(lineage)
}

fn session() -> Result<Lineage> {
    let mut lineage = Lineage::new(&Key::new([5; 16]), Budget::DEFAULT);
    let digest = Digest::of(Domain::Result, TASK.as_bytes());
    lineage.record_text(Source::Task { digest }, TASK, Label::Authoritative)?;
    Ok(lineage)
}

fn labels() -> Result<Labels> {
    Ok(Labels::all(Label::Untrusted)
        .with("/*/id", Label::Minted)?
        .with("/*/date", Label::Minted)?
        .with("/*/folder", Label::Derived)?)
}

fn source(number: usize) -> Result<Source> {
    Ok(Source::Result {
        call: Digest::of(Domain::Call, &number.to_le_bytes()),
        digest: Digest::of(Domain::Result, &number.to_le_bytes()),
        tool: ToolName::parse("read_inbox")?,
    })
}

/// About 4 KB of one kind.
fn result(random: &mut Random, kind: Kind) -> Result<Value> {
    let mut text = String::new();
    match kind {
        Kind::Records => {
            text.push('[');
            let batch = random.next();
            while text.len() < RESULT - 400 {
                let separator = if text.len() > 1 { "," } else { "" };
                let number = text.len();
                write!(
                    text,
                    "{separator}{{\"id\":\"m-{batch}-{number}\",\"date\":\"2024-{:02}-{:02}T{:02}:{:02}:00\",\
                     \"from\":\"{}@{}.example\",\"subject\":\"{}\",\"folder\":\"inbox\",\"read\":true,\
                     \"size\":{},\"body\":\"{}\"}}",
                    random.below(12) + 1,
                    random.below(28) + 1,
                    random.below(24),
                    random.below(60),
                    random.word(),
                    random.word(),
                    random.words(5),
                    random.below(100_000),
                    random.words(45),
                )?;
            }
            text.push(']');
            return Ok(parse(text.as_bytes(), &Limits::RESULT)?);
        }
        Kind::Prose => text = random.words(RESULT / 6),
        Kind::Cyrillic => {
            for character in random.words(RESULT / 12).chars() {
                text.push(match character {
                    'a'..='z' => {
                        char::from_u32(u32::from(character) - u32::from('a') + 0x430).unwrap_or('x')
                    }
                    other => other,
                });
            }
        }
        Kind::Codes => {
            while text.len() < RESULT {
                write!(text, "{:012x} ", random.next() & 0xffff_ffff_ffff)?;
            }
        }
        Kind::Base64 => {
            let plain = random.words(RESULT / 8);
            text = base64(plain.as_bytes());
        }
    }
    Ok(Value::Text(text))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for triple in bytes.chunks_exact(3) {
        let bits = triple
            .iter()
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for shift in [18, 12, 6, 0] {
            if let Some(digit) = DIGITS.get(bits >> shift & 63) {
                out.push(char::from(*digit));
            }
        }
    }
    out
}

/// Numbers without pattern: splitmix64 (Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A word out of 50,000, the frequent ones often (Zipf) and short.
    fn word(&mut self) -> String {
        let mut rank = self.below(50_000);
        for _ in 0..2 {
            rank = self.below(rank + 1);
        }
        let mut word = String::new();
        let mut left = rank + 20;
        while left > 0 {
            let digit = u8::try_from(left % 20).unwrap_or(0);
            word.push(char::from(b'a' + digit));
            word.push(char::from(
                b"aeiou"
                    .get(usize::from(digit % 5))
                    .copied()
                    .unwrap_or(b'a'),
            ));
            left /= 20;
        }
        word
    }

    fn words(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&self.word());
        }
        text
    }
}

/// The time that `percent` do not exceed (nearest rank).
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn shown(time: Duration) -> String {
    format!("{:.1} µs", micros(time))
}
