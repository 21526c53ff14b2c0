//! The standard library of the module: `core` and `alloc` under the names that `std` has for them.
//!
//! A crate that has this as its dependency `std` gets it wherever it says `std`, the prelude included, and so links
//! without the runtime of the real one: threads, environment, files, and printing of panics, an eighth of the module.
//! Crates that are built for other targets, too, need no second set of imports for it.
//!
//! Only what is used is here. A name that is missing is added below, where `core` or `alloc` has it; what neither
//! has (files, clocks, threads, hash maps) has no business in the module.
#![no_std]

#[doc(hidden)]
pub extern crate alloc as __alloc;

pub use __alloc::{borrow, boxed, collections, fmt, format, rc, slice, str, string, sync};
pub use core::{
    array, assert, assert_eq, assert_ne, cell, char, clone, cmp, concat, convert, debug_assert, default, error, hash,
    iter, marker, matches, mem, num, ops, option, panic, primitive, result, stringify, time, todo, unreachable, write,
};

/// Vectors.
pub mod vec {
    pub use __alloc::vec::*;
}

/// `vec!`, apart from the module of the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! vec {
    ($($item:tt)*) => { $crate::__alloc::vec![$($item)*] };
}

/// What every file sees without saying so.
pub mod prelude {
    /// That of the 2024 edition.
    pub mod rust_2024 {
        pub use core::prelude::rust_2024::*;

        pub use __alloc::borrow::ToOwned;
        pub use __alloc::boxed::Box;
        pub use __alloc::format;
        pub use __alloc::string::{String, ToString};
        pub use __alloc::vec::Vec;

        pub use crate::vec;
    }
}
