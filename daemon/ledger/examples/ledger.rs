//! What the ledger costs: records a second, and what a long chain takes to verify and to look something up
//! in. `cargo xtask bench ledger` runs it, built for release.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a measuring program: it stops where something is wrong, and prints what it saw"
)]

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use custody_ledger::{
    keys::Keys,
    lookup::{Lookup, Sought},
    verify::{Noted, verify_with},
    writer::Writer,
};
use ed25519_dalek::SigningKey;
use gate::{
    chain::{self, ChainName, Checkpoint, Place, Salt, Tip, keys::Keyring},
    decide::Grounds,
    digest::{Digest, Domain},
    id::{CredentialLabel, SessionId},
    json::Value,
    policy::{OnTaint, Risk},
    record::Decision,
};

/// Turns of each contender; the median counts.
const TURNS: usize = 5;

/// Records of one turn.
const RECORDS: u64 = 10_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let top = arguments.next().unwrap_or_else(|| "/var/tmp".into());
    let longest: u64 = arguments.next().map_or(1_000_000, |it| it.parse().unwrap());
    rates(Path::new(&top));
    curve(Path::new(&top), longest);
}

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// An allowed call of five arguments: what most lines are.
fn record(n: u64) -> Decision {
    let text = |text: String| Value::Text(text);
    let arguments = Value::Object(
        [
            ("account", text(format!("ACC-{n:08}"))),
            ("body", text("x".repeat(300))),
            ("cc", Value::List(vec![text("b@example.org".into())])),
            ("subject", text(format!("Invoice {n} of this month"))),
            ("to", text("alice@customer.example.org".into())),
        ]
        .map(|(name, it)| (name.to_owned(), it))
        .into(),
    );
    Decision::Allowed {
        at: 1_796_000_000_000 + n,
        call: Value::Object(
            [
                ("arguments".to_owned(), arguments),
                ("tool".to_owned(), text("send_message".into())),
            ]
            .into(),
        ),
        credential: CredentialLabel::parse("mail").unwrap(),
        digest: call(n),
        from: Vec::new(),
        grounds: Grounds {
            approval: None,
            arguments: [].into(),
            branch: None,
            classes: [].into(),
            on_taint: OnTaint::Refuse,
            risk: Risk::Write,
            taint: [].into(),
        },
        meaning: gate::meaning::Meaning::default(),
        opens: None,
        policy: Digest::of(Domain::Policy, b"bench"),
        session: SessionId(n % 64),
    }
}

fn call(n: u64) -> Digest {
    Digest::of(Domain::Call, &n.to_le_bytes())
}

fn rates(top: &Path) {
    println!(
        "{TURNS} turns each, taken by turns; {RECORDS} records of one chain in a turn, on `{}`",
        top.display()
    );
    let mut series: [Vec<f64>; 4] = Default::default();
    let mut cpu: [Vec<f64>; 2] = Default::default();
    let mut bytes = 0;
    let mut checkpoints = 0;
    for _ in 0..TURNS {
        series[0].push(fdatasync(top));
        let (rate, each) = signed_each(top);
        series[1].push(rate);
        cpu[0].push(each);
        let ((rate, each), written, signed) = grouped(top);
        series[2].push(rate);
        cpu[1].push(each);
        (bytes, checkpoints) = (written, signed);
        series[3].push(durable_each(top));
    }
    let median = |of: &[f64]| {
        let mut sorted = of.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let each = median(&series[1]);
    for (name, of) in [
        ("fdatasync(2) alone, of one line", &series[0]),
        ("every line signed, written at once", &series[1]),
        ("checkpoints for groups, synced as they come", &series[2]),
        ("each record awaited: signed and on disk", &series[3]),
    ] {
        let rate = median(of);
        println!(
            "{name:46} {rate:>9.0} a second   {:>8.1} µs each   × {:.2} of every line signed",
            1e6 / rate,
            rate / each
        );
    }
    // What else the machine does is not in these.
    println!(
        "processor time: {:.1} µs a record with a signature each, {:.1} µs with checkpoints: {:.0} a second on one processor",
        median(&cpu[0]),
        median(&cpu[1]),
        1e6 / median(&cpu[1])
    );
    println!(
        "{} bytes a record with its share of the checkpoints; {checkpoints} checkpoints for {RECORDS} records",
        bytes / RECORDS
    );
}

fn rate(count: u64, took: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a count of thousands")]
    let count = count as f64;
    count / took.as_secs_f64()
}

fn fdatasync(top: &Path) -> f64 {
    let dir = tempfile::tempdir_in(top).unwrap();
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.path().join("x"))
        .unwrap();
    let (line, start, count) = (vec![b'x'; 1_200], Instant::now(), 200);
    for _ in 0..count {
        file.write_all(&line).unwrap();
        file.sync_data().unwrap();
    }
    rate(count, start.elapsed())
}

/// As it was before: a signature for each line, and nothing waits for the disk.
fn signed_each(top: &Path) -> (f64, f64) {
    let dir = tempfile::tempdir_in(top).unwrap();
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.path().join("x"))
        .unwrap();
    let (key, start, spent) = (key(), Instant::now(), on_processors());
    let mut tip = Tip::START;
    for n in 0..RECORDS {
        let since = tip.head.position;
        let (line, next) = chain::append(&tip, &Salt([1; 16]), &record(n)).unwrap();
        file.write_all(&line).unwrap();
        let says = Checkpoint::by(&key, 1, next.head, since, since);
        let (line, next) =
            chain::checkpoint(ChainName::Decisions, &next, &says, &[next.head], &key).unwrap();
        file.write_all(&line).unwrap();
        tip = next;
    }
    let took = start.elapsed();
    (
        rate(RECORDS, took),
        1e6 / rate(RECORDS, on_processors() - spent),
    )
}

fn grouped(top: &Path) -> ((f64, f64), u64, u64) {
    let dir = tempfile::tempdir_in(top).unwrap();
    let (start, spent) = (Instant::now(), on_processors());
    let (mut writer, _tail) = Writer::<Decision>::open(dir.path(), key()).unwrap();
    for n in 0..RECORDS {
        writer.append(&record(n)).unwrap();
    }
    writer.durability().sync().unwrap();
    let took = start.elapsed();
    let each = 1e6 / rate(RECORDS, on_processors() - spent);
    drop(writer);
    let mut bytes = 0;
    let mut checkpoints = 0;
    for entry in fs::read_dir(dir.path()).unwrap() {
        let text = fs::read(entry.unwrap().path()).unwrap();
        bytes += text.len() as u64;
        let lines = text.split(|b| *b == b'\n');
        checkpoints += lines.filter(|it| it.starts_with(b"{\"chain\"")).count() as u64;
    }
    ((rate(RECORDS, took), each), bytes, checkpoints)
}

/// The time that the threads of this process had a processor (/proc/PID/task/TID/schedstat, nanoseconds).
fn on_processors() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .map(|text| Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap()))
        .sum()
}

fn durable_each(top: &Path) -> f64 {
    let dir = tempfile::tempdir_in(top).unwrap();
    let (mut writer, _tail) = Writer::<Decision>::open(dir.path(), key()).unwrap();
    let durability = writer.durability();
    let (start, count) = (Instant::now(), 200);
    for n in 0..count {
        writer.append(&record(n)).unwrap();
        durability.sync().unwrap();
    }
    rate(count, start.elapsed())
}

/// A chain that grows: what it takes to verify it whole, and to find one record of it.
fn curve(top: &Path, longest: u64) {
    let dir = tempfile::tempdir_in(top).unwrap();
    for name in ["decisions", "receipts"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let ring = || Keyring::of(&[key().verifying_key()]);
    let keys = Keys::of(key().verifying_key(), key().verifying_key());
    println!(
        "\nrecords     bytes      verify whole   µs each   memory     by position   by digest   by call   index"
    );
    let mut written = 0;
    let mut last = (0_u64, Duration::ZERO);
    for length in [10_000, 100_000, 1_000_000]
        .into_iter()
        .filter(|it| *it <= longest)
    {
        let (mut writer, _tail) =
            Writer::<Decision>::open(&dir.path().join("decisions"), key()).unwrap();
        let mut sought = Place::START;
        for n in written..length {
            let place = writer.append(&record(n)).unwrap();
            if n == length / 2 {
                sought = place;
            }
        }
        drop(writer);
        written = length;
        let start = Instant::now();
        let report = verify_with(dir.path(), &keys, &Noted::default()).unwrap();
        let verified = start.elapsed();
        assert!(
            report.is_good() && report.decisions.records == length,
            "{report:?}"
        );
        let memory = peak();
        let mut lookup = Lookup::open(dir.path(), ChainName::Decisions, ring()).unwrap();
        let start = Instant::now();
        lookup.refresh().unwrap();
        let built = start.elapsed();
        let mut find = |what| {
            let start = Instant::now();
            let found = lookup.find(what).unwrap();
            assert_eq!(found.len(), 1);
            start.elapsed()
        };
        let by_position = find(Sought::Position(length / 2 + 1));
        let by_digest = find(Sought::Record(sought.digest));
        let by_call = find(Sought::Call(call(length / 2)));
        let bytes: u64 = fs::read_dir(dir.path().join("decisions"))
            .unwrap()
            .map(|it| it.unwrap().metadata().unwrap().len())
            .sum();
        println!(
            "{length:>9}   {:>6.1} MB   {:>8.2} s   {:>8.1}   {memory:>6}   {:>8.1} ms   {:>8.1} ms   {:>6.1} ms   {:>6.2} s",
            mega(bytes),
            verified.as_secs_f64(),
            verified.as_secs_f64() * 1e6 / mega(length) / 1e6,
            by_position.as_secs_f64() * 1e3,
            by_digest.as_secs_f64() * 1e3,
            by_call.as_secs_f64() * 1e3,
            built.as_secs_f64(),
        );
        last = (length, verified);
    }
    let (length, verified) = last;
    if length > 0 {
        println!(
            "10,000,000 are extrapolated, not measured: verifying is linear, {:.0} s; looking up by position reads one file \
             behind the first lines of log2(files) others",
            verified.as_secs_f64() * 1e7 / (mega(length) * 1e6),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a column of a table")]
fn mega(count: u64) -> f64 {
    count as f64 / 1e6
}

/// The most memory that this process had at once (proc_pid_status(5), VmHWM).
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    format!("{} MB", kilobytes / 1024)
}
