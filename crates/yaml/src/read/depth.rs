//! How deep values are nested.

use std::ops::Range;

use crate::problem::Problem;

/// How deep values may be nested. Kubernetes' own types stay below 30, definitions of custom resources below 100.
const MAX: usize = 500;

/// The number of lists and maps around a value.
#[derive(Debug, Default)]
pub(super) struct Depth(usize);

impl Depth {
    /// Enters a list or a map, which stands at `range`.
    ///
    /// # Errors
    /// If that is too deep.
    pub(super) fn enter(&mut self, range: &Range<usize>) -> Result<(), Problem> {
        if self.0 == MAX {
            return Err(Problem::new(format!("values are nested more than {MAX} deep"), range.clone()));
        }
        self.0 += 1;
        Ok(())
    }

    /// Leaves a list or a map that was entered.
    pub(super) fn leave(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }
}
