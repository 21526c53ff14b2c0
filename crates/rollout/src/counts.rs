//! How many Pods of a SidecarSet are updated and ready (ROLL-15).

use crate::consistency::Judged;

/// The numbers of a SidecarSet's Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All Pods.
    pub matched: usize,
    /// The Pods with the version that is rolled out.
    pub updated: usize,
    /// The Pods that are consistent and ready.
    pub ready: usize,
    /// The Pods that are both.
    pub updated_ready: usize,
    /// The Pods whose resize has begun. They are not updated.
    pub resizing: usize,
    /// The Pods without the version that are not ready for another reason than their containers.
    pub absent: usize,
}

impl Counts {
    /// Counts Pods.
    pub fn count(judged: &[Judged]) -> Self {
        judged.iter().fold(Self { matched: judged.len(), ..Self::default() }, |mut counts, judged| {
            let is_ready = judged.is_available();
            counts.updated += usize::from(judged.is_updated);
            counts.ready += usize::from(is_ready);
            counts.updated_ready += usize::from(judged.is_updated && is_ready);
            counts.absent += usize::from(!judged.is_updated && judged.absence.is_some());
            counts.resizing += usize::from(judged.is_resizing);
            counts
        })
    }
}
