//! What an installation of Pillion is: its settings, the manifests that a cluster needs for it, and how a cluster
//! shows it.
//!
//! [`settings`] reads settings from files, and joins SidecarSets to them. [`rendering`] makes manifests of settings
//! and options, the definition of SidecarSets, and the data of the Helm chart. [`schema`] describes settings,
//! SidecarSets and policies for editors. [`installation`] finds in a cluster what the manifests have brought there,
//! and [`tuning`] has the options of the controllers. [`unread`] finds misspelt fields.
//!
//! It never writes to a cluster, runs the module, or judges a Pod.
//!
//! Start with [`settings`] and [`rendering`].
#![forbid(unsafe_code)]

pub mod bundling;
pub mod installation;
pub mod policy_fields;
pub mod rendering;
pub mod schema;
pub mod settings;
pub mod tuning;
pub mod unread;
