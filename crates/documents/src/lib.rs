//! Manifests as users write and read them.
//!
//! [`manifest`] finds the objects of files, folders and `stdin`, and remembers where each value stood. [`diff`] shows
//! the difference between two texts. [`kinds`] names the kinds that create Pods. [`objects`] finds manifests as a
//! cluster would. [`locate`] turns the path of a field into a [`place`] in a file.
//!
//! It never asks a cluster, judges an object, or prints.
//!
//! Start with [`manifest`].
#![forbid(unsafe_code)]

pub mod diff;
pub mod kinds;
pub mod locate;
pub mod manifest;
pub mod objects;
pub mod place;
