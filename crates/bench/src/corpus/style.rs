//! The kinds of content.

/// The content of the SidecarSets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Hand-written ones: agents of a few kinds, each with its own image, values and selector; 0.5 to 6 KB, 1 KB on
    /// average.
    #[default]
    Realistic,
    /// The same, with incompressible values.
    Worst,
}
