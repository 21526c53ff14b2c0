//! Images of containers and how they are pulled.

use super::node::Node;
use crate::field::FieldError;

/// The values of a pull policy.
pub(super) const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

/// An image is named, without blanks around it; the pull policy is one that exists.
pub(super) fn check(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    if container.require("image", errors) {
        let image = container.text("image");
        if image.trim() != image {
            let detail = "must not have leading or trailing white space; remove it";
            errors.push(FieldError::invalid(&container.at("image"), image, detail));
        }
    }
    container.one_of("imagePullPolicy", &PULL_POLICIES, errors);
}
