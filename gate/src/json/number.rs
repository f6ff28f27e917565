//! The two kinds of number.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{JsonError, Value};

/// An integral number that every reader of JSON has exactly: |n| ≤ 2^53−1 (RFC 7493, 2.2).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Int(i64);

impl Int {
    /// The greatest.
    pub const MAX: Self = Self((1 << 53) - 1);
    /// The least.
    pub const MIN: Self = Self(-Self::MAX.0);

    /// `n`, if it is in range.
    pub const fn new(n: i64) -> Option<Self> {
        if n >= Self::MIN.0 && n <= Self::MAX.0 {
            Some(Self(n))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The number as a float; exact, since |n| < 2^53.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

/// A number that is finite, not integral, and below 2^53.
#[derive(Clone, Copy, Debug)]
pub struct Real(f64);

impl Real {
    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

// No NaN and no zero can be in it: `==` on the float is an equivalence.
impl Eq for Real {}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

/// The one [`Value`] of `x`: an [`Int`] if it is integral.
pub(super) fn from_f64(x: f64) -> Result<Value, JsonError> {
    /// 2^53.
    const BEYOND: f64 = 9_007_199_254_740_992.0;
    if x.is_nan() || x >= BEYOND || x <= -BEYOND {
        return Err(JsonError::Magnitude);
    }
    if x == 0.0 && x.is_sign_negative() {
        return Err(JsonError::MinusZero);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "|x| < 2^53; whether a fraction was cut is what the next line asks"
    )]
    let whole = x as i64;
    if Int(whole).as_f64() == x {
        Ok(Value::Int(Int(whole)))
    } else {
        Ok(Value::Real(Real(x)))
    }
}

impl TryFrom<f64> for Value {
    type Error = JsonError;

    fn try_from(x: f64) -> Result<Self, JsonError> {
        from_f64(x)
    }
}

impl TryFrom<i64> for Value {
    type Error = JsonError;

    fn try_from(n: i64) -> Result<Self, JsonError> {
        Int::new(n).map(Self::Int).ok_or(JsonError::Magnitude)
    }
}

impl Serialize for Int {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(i64::deserialize(deserializer)?)
            .ok_or_else(|| D::Error::custom(JsonError::Magnitude))
    }
}
