//! The targets: what each of them does with an input.

mod bundle;
mod expression;
mod quantity;
mod request;
mod settings;
