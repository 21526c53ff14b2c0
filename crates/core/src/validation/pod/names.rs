//! Names of containers.

use super::node::{Node, push_wrong};
use crate::field::FieldError;
use crate::format;
use crate::ordered::Set;

/// A container has a name, and it is a DNS label.
pub(super) fn check(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    if container.require("name", errors) {
        let name = container.text("name");
        push_wrong(&container.at("name"), name, format::dns_label(name), errors);
    }
}

/// The names that the containers of a Pod have, whatever their kind.
#[derive(Default)]
pub(super) struct Names<'a>(Set<&'a str>);

impl<'a> Names<'a> {
    /// Adds the name of `container`, which must be new. An empty name is reported by [`check`] alone.
    pub(super) fn add(&mut self, container: &Node<'a>, errors: &mut Vec<FieldError>) {
        let name = container.text("name");
        if !name.is_empty() && !self.0.insert(name) {
            errors.push(FieldError::duplicate(&container.at("name"), name));
        }
    }
}
