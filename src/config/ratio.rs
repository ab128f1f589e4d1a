//! A share of a whole, as a value of the configuration.

use serde::{Deserialize, Serialize};

/// From 0, nothing, to 1, everything.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Ratio(f64);

/// What is not a share.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not from 0 to 1")]
pub struct NoRatio(f64);

// No value is unequal to itself: none is NaN.
impl Eq for Ratio {}

impl Ratio {
    /// Everything.
    pub const ALL: Self = Self(1.0);

    /// The share as a number from 0 to 1.
    pub fn share(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Ratio {
    type Error = NoRatio;

    fn try_from(share: f64) -> Result<Self, NoRatio> {
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(NoRatio(share)) }
    }
}

impl From<Ratio> for f64 {
    fn from(ratio: Ratio) -> Self {
        ratio.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_from_nothing_to_everything() {
        for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Ratio::try_from(share).is_err(), "{share}");
        }
        let read = |text: &str| toml::from_str::<toml::Table>(text).unwrap()["share"].clone().try_into::<Ratio>();
        for (text, share) in [("share = 0", 0.0), ("share = 0.25", 0.25), ("share = 1", 1.0)] {
            assert_eq!(read(text).unwrap().share(), share);
        }
        assert!(read("share = 2").is_err() && read("share = '1'").is_err());
    }
}
