//! A real node itself: containers run, and reach what they should.

mod tests;
