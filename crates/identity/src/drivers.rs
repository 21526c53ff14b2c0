//! CSI drivers.

use std::collections::BTreeSet;

/// Names of CSI drivers (`spec.csi.driver` of a volume).
pub type Drivers = BTreeSet<String>;
