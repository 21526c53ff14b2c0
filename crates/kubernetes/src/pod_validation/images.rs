//! Images of containers and their pull policies.

use crate::field::FieldError;
use crate::node::Node;

/// The values of a pull policy.
pub(super) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// Checks that the image is set, without surrounding white space, and that the pull policy is known.
pub(super) fn check(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if container.require("image", errors) {
        let image = container.text("image");
        if image.trim() != image {
            container.invalid("image", "must not have leading or trailing white space; remove it", errors);
        }
    }
    container.one_of("imagePullPolicy", PULL_POLICIES, errors);
}
