//! Times of one contender, and what is said of them.

use std::time::Duration;

use crate::say;

/// The times of one contender's turns.
#[derive(Debug, Default)]
pub(crate) struct Series {
    name: String,
    times: Vec<Duration>,
    /// All turns together.
    cpu: Option<Duration>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, time: Duration) {
        self.times.push(time);
    }

    pub(crate) fn add_cpu(&mut self, cpu: Duration) {
        *self.cpu.get_or_insert_default() += cpu;
    }

    /// The time that `percent` of the turns do not exceed (nearest rank).
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or_default()
    }

    /// Processor time of one turn, if it was measured.
    pub(crate) fn cpu_each(&self) -> Option<Duration> {
        let turns = u32::try_from(self.times.len())
            .ok()
            .filter(|turns| *turns > 0)?;
        self.cpu.map(|cpu| cpu / turns)
    }
}

/// Prints `all`, each as ratios to the first.
pub(crate) fn compare(all: &[Series]) {
    let Some(base) = all.first() else {
        return;
    };
    say::line(format_args!(
        "{:34} {:>10} {:>10} {:>10}   {:>7} {:>7} {:>7}",
        "", "p50", "p99", "CPU", "×p50", "×p99", "×CPU"
    ));
    for series in all {
        let cpu = series.cpu_each();
        let ratio = |of: Option<Duration>, to: Option<Duration>| match (of, to) {
            (Some(of), Some(to)) if !to.is_zero() => {
                format!("{:.2}", of.as_secs_f64() / to.as_secs_f64())
            }
            _ => "–".to_owned(),
        };
        say::line(format_args!(
            "{:34} {:>10} {:>10} {:>10}   {:>7} {:>7} {:>7}",
            series.name,
            shown(Some(series.percentile(50))),
            shown(Some(series.percentile(99))),
            shown(cpu),
            ratio(Some(series.percentile(50)), Some(base.percentile(50))),
            ratio(Some(series.percentile(99)), Some(base.percentile(99))),
            ratio(cpu, base.cpu_each()),
        ));
    }
}

fn shown(time: Option<Duration>) -> String {
    time.map_or_else(
        || "–".to_owned(),
        |time| format!("{:.2} ms", time.as_secs_f64() * 1e3),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_seen() {
        let mut series = Series::new("a");
        for ms in (1..=100).rev() {
            series.push(Duration::from_millis(ms));
        }
        assert_eq!(series.percentile(50), Duration::from_millis(50));
        assert_eq!(series.percentile(99), Duration::from_millis(99));
        assert_eq!(series.percentile(100), Duration::from_millis(100));
        assert_eq!(Series::new("b").percentile(50), Duration::ZERO);
    }

    #[test]
    fn cpu_is_per_turn() {
        let mut series = Series::new("a");
        assert_eq!(series.cpu_each(), None);
        for _ in 0..4 {
            series.push(Duration::from_millis(1));
            series.add_cpu(Duration::from_millis(3));
        }
        assert_eq!(series.cpu_each(), Some(Duration::from_millis(3)));
    }
}
