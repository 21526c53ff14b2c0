//! Images of containers and how they are pulled.

use crate::field::FieldError;
use crate::node::Node;

/// The values of a pull policy.
pub(super) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// An image is named, without blanks around it; the pull policy is one that exists.
pub(super) fn check(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if container.require("image", errors) {
        let image = container.text("image");
        if image.trim() != image {
            container.invalid("image", "must not have leading or trailing white space; remove it", errors);
        }
    }
    container.one_of("imagePullPolicy", PULL_POLICIES, errors);
}
