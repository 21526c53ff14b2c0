//! Admission of a `SidecarSet`: default, hash, validate (docs/spec/defaults-and-hashes.md, validation.md).

use pillion_identity::changes;
use pillion_identity::declared;
use pillion_identity::sidecar_set;
use pillion_identity::warnings::unread;
use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Memo;
use pillion_kubernetes::operation::Operation;
use pillion_kubernetes::outcome::{Code, Outcome, Reason, Refusal, Verdict};
use pillion_kubernetes::world::World;
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::Scope;
use pillion_sidecarset::sidecar_set::convert;
use pillion_sidecarset::sidecar_set::decode::{Decoded, decode};
use pillion_sidecarset::sidecar_set::defaults;
use pillion_sidecarset::sidecar_set::prepare::stamp;
use pillion_sidecarset::sidecar_set::version::Version;
use pillion_sidecarset::validation::conflicts::Claims;
use pillion_sidecarset::validation::{self, LookupErrors, canary, injection, update, whitelist};
use pillion_sidecarset::warnings::{self, Written};
use serde_json::Value;

use crate::settings::BorrowedSettings;

/// The longest SidecarSet, in bytes of JSON (E18). A ConfigMap may have twice that length.
const LENGTH_MAX: usize = 512 * 1024;
/// The API group.
const GROUP: &str = "apps.kruise.io";

/// The parts of an AdmissionRequest.
#[derive(Clone, Debug)]
pub(crate) struct SidecarSetRequest {
    /// `CREATE` or `UPDATE` (DEF-1).
    pub operation: Operation,
    /// `request.resource.version`: the version of both objects.
    pub version: String,
    /// `request.object`.
    pub object: Value,
    /// `request.oldObject`; needed for an update.
    pub old_object: Option<Value>,
    /// `request.userInfo`.
    pub author: Author,
}

/// The inputs of admission besides the request.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The settings. Those of their `SidecarSet`s that count are in `others`.
    pub settings: &'a BorrowedSettings<'a>,
    /// The `SidecarSet`s of the settings and the bundle, prepared.
    pub others: &'a [SidecarSet],
    /// The cluster. It is asked for the revision, the whitelist, the permissions of the author and of the
    /// ServiceAccount, and then the account, each only if the object requires it.
    pub world: World<'a>,
}

impl Context<'_> {
    /// Whether a controller provides SidecarSets of the cluster to the policy (`bundleRef`).
    const fn is_watched(&self) -> bool {
        self.settings.bundle_source.config_map.is_some()
    }
}

/// Answers a request.
///
/// Returns an accepted object in the version in which it was sent, with defaults and hashes filled in. Unknown fields
/// stay. Refusals: 400 with every field of a wrong type, 422 with every invalid field, 503 if a failed lookup is the
/// only problem.
pub fn admit(request: SidecarSetRequest, context: &Context<'_>) -> Outcome {
    let SidecarSetRequest { operation, version, object, old_object, author } = request;
    let name = shown_name(&object);
    let root = FieldPath::default();
    let old_path = FieldPath::new("oldObject");
    let Some(version) = Version::ALL.into_iter().find(|known| known.api_version() == format!("{GROUP}/{version}"))
    else {
        let supported = Version::ALL.map(Version::api_version);
        return undecodable(&name, vec![FieldError::not_supported("apiVersion", version, &supported)]);
    };
    // A SidecarSet that was stored before the policy was installed can still be changed and lose its finalizers.
    let is_too_long = |object: &Value| json::length(object, LENGTH_MAX) > LENGTH_MAX;
    if is_too_long(&object) && !old_object.as_ref().is_some_and(is_too_long) {
        let error = FieldError::too_long(root, LENGTH_MAX);
        return Verdict::Refused(reason(&name, error, Code::Invalid).into()).into();
    }
    let stand_ins: Vec<_> =
        ["apiVersion", "kind"].into_iter().filter(|key| json::text(&object, &[key]).is_empty()).collect();
    let decoded = match decode_as(version, object, &root) {
        Ok(decoded) => decoded,
        Err(errors) => return undecodable(&name, errors),
    };
    let is_update = operation == Operation::Update;
    let old = match old_object {
        _ if !is_update => None,
        Some(old) => match decode_as(version, old, &old_path) {
            Ok(old) => Some(old.into_sidecar_set()),
            Err(errors) => return undecodable(&name, errors),
        },
        None => {
            let missing = FieldError::required(old_path, "an update carries the object before it");
            return undecodable(&name, vec![missing]);
        }
    };

    let written = Written {
        object: decoded.object(),
        version,
        old: old.as_ref(),
        rollouts: std::slice::from_ref(&context.settings.rollouts),
    };
    let mut warned = warnings::about_values(&written);
    warned.append(&mut unread(written.object, version));
    let Admitted { set, as_sent, is_changed } = Admitted::new(decoded, context.settings.gates);

    let mut identity = pillion_identity::validation::Findings::default();
    let mut outcome = Outcome::from(match judge(&set, old.as_ref(), &author, context, &mut identity) {
        Some(refusal) => Verdict::Refused(refusal),
        None if !is_changed => Verdict::Unchanged,
        None => {
            let mut object = as_sent.unwrap_or_else(|| set.into_value());
            // Remove the keys that were only added for the decoder.
            if let Value::Object(object) = &mut object {
                object.retain(|key, _| !stand_ins.contains(&key.as_str()));
            }
            Verdict::Mutated(object)
        }
    });
    outcome.warnings.append(&mut identity.warnings);
    if context.is_watched() && is_update && is_in_settings(&name, context.others) {
        outcome.warnings.push(format!(
            "SidecarSet \"{name}\" is left out: the policy's settings have a SidecarSet of this name, which is the one that \
             is injected; rename one of them"
        ));
    }
    let is_known = context.is_watched() || context.others.iter().any(|other| other.name() == name);
    if !matches!(outcome.verdict, Verdict::Refused(_)) && !is_known {
        outcome.warnings.push(format!(
            "SidecarSet \"{name}\" is not among the SidecarSets of this policy and will not be injected; add it to the policy's sidecarSets, or to the bundle that it reads"
        ));
    }
    // Last, since there may be a thousand of them, and what is too long is cut at the end.
    outcome.warnings.extend(warned.iter().map(ToString::to_string));
    outcome
}

/// An object after admission, with defaults and hashes.
struct Admitted {
    /// The object in its v1beta1 form.
    set: SidecarSet,
    /// The object in the version of the request, if that is not v1beta1.
    as_sent: Option<Value>,
    /// Whether admission changed the object.
    is_changed: bool,
}

impl Admitted {
    fn new(decoded: Decoded, gates: Gates) -> Self {
        let version = decoded.version();
        let mut object = decoded.into_object();
        let mut is_changed = defaults::apply(&mut object);
        if gates.service_account_injection {
            is_changed |= declared::canonicalise(&mut object);
        }
        is_changed |= stamp(&mut object);
        let mut as_sent = (version == Version::V1Alpha1).then(|| object.clone());
        if as_sent.is_some() {
            convert::to_v1beta1(&mut object);
        }
        let marked = SidecarSet::from_decoded(object);
        // The author cannot say what only bundles and settings say (TRUST-1). What was sent stays in the answer.
        let set = marked.clone().without_marks();
        if as_sent.is_none() && set != marked {
            as_sent = Some(marked.into_value());
        }
        Self { set, as_sent, is_changed }
    }
}

/// Returns the namespace of a SidecarSet that was not decoded, if it matches in only one (MATCH-4, API-10).
pub(crate) fn only_namespace(object: &Value) -> Option<&str> {
    let namespace = json::text(object, &["spec", "namespace"]);
    if !namespace.is_empty() {
        return Some(namespace);
    }
    match json::at(object, &["spec", "namespaceSelector"]).map(Scope::from_selector)? {
        Scope::Namespaces(names) => names.first().copied().filter(|_| names.len() == 1),
        Scope::Cluster => None,
    }
}

/// Decodes an object, which must have the request's version. If it has no version or kind, those of the request apply,
/// as in the decoder of the reference implementation.
fn decode_as(version: Version, mut object: Value, path: &FieldPath<'_>) -> Result<Decoded, Vec<FieldError>> {
    if let Some(object) = object.as_object_mut() {
        for (key, value) in [("apiVersion", version.api_version()), ("kind", "SidecarSet")] {
            let slot = object.entry(key).or_insert(Value::Null);
            if slot.is_null() || slot == "" {
                *slot = Value::from(value);
            }
        }
    }
    let decoded =
        decode(object).map_err(|errors| errors.into_iter().map(|error| error.below(path)).collect::<Vec<_>>())?;
    if decoded.version() == version {
        return Ok(decoded);
    }
    let path = path.child("apiVersion");
    let wrong = format!("must be {}, the version of the request", version.api_version());
    Err(vec![FieldError::invalid(path, decoded.version().api_version(), wrong)])
}

/// Returns all problems of a set. Compares it with other `SidecarSet`s only if there are no others (VAL-1).
fn judge(
    set: &SidecarSet,
    old: Option<&SidecarSet>,
    author: &Author,
    context: &Context<'_>,
    identity: &mut pillion_identity::validation::Findings,
) -> Option<Refusal> {
    let Context { settings, others, world } = *context;
    let (is_watched, rules, system_namespace) =
        (context.is_watched(), &settings.service_accounts, settings.system_namespace.as_str());
    let lookup = &Memo::new(world.lookup);
    let world = World { lookup, ..world };
    let mut findings = LookupErrors { invalid: validation::validate(set), unavailable: Vec::new() };
    canary::check_base(set, others, &mut findings.invalid);
    // A policy that reads no SidecarSets of the cluster injects none of them: the cluster's may be the originals of those
    // in the settings (docs/migration.md).
    if is_watched {
        canary::check_trust(set, old, others, &mut findings.invalid);
    }
    if is_watched && old.is_none() && is_in_settings(set.name(), others) {
        let wrong = "the policy's settings have a SidecarSet of this name, which is the one that is injected; choose another \
                     name, or remove that one from the settings";
        findings.invalid.push(FieldError::invalid("metadata.name", set.name(), wrong));
    }
    if let Some(old) = old {
        update::check(set, old, &mut findings.invalid);
    }
    let revisions = settings.controller_revisions.as_slice();
    let sources = injection::Sources { revisions, sets: others, is_watched, system_namespace, lookup };
    let unknown = injection::check_written(set, old, sources, &mut findings);
    let whitelist = settings.patch_pod_metadata_whitelist.as_ref();
    whitelist::check(set, settings.gates, whitelist, system_namespace, lookup, &mut findings);
    // An object that is being deleted must be able to lose its finalizers, even if the rules have changed. Until it is
    // gone it may be in effect, so other changes to it need the usual checks (ESC-1).
    let only_goes = old.is_some_and(|old| json::is_terminating(old.as_value()) && !changes::concerns(set, old));
    if findings.is_empty() && !only_goes {
        let claims = Claims::from_sidecar_set(set);
        for other in others {
            claims.check(&Claims::from_sidecar_set(other), &mut findings.invalid);
        }
    }
    if !only_goes {
        let stored =
            || injection::requested(set, sources).map_err(|error| reason(set.name(), error, Code::Unavailable));
        let is_fine = findings.is_empty();
        let asked = sidecar_set::Asked { set, old, author, others, stored: &stored, is_fine };
        *identity = sidecar_set::judge(asked, settings.gates.service_account_injection, rules, world);
    }
    identity.warnings.extend(unknown);
    let mut reasons = std::mem::take(&mut identity.refused);
    findings.invalid.append(&mut identity.invalid);
    let name = shown_name(set.as_value());
    add_reasons(&mut reasons, &name, findings.invalid, Code::Invalid);
    add_reasons(&mut reasons, &name, findings.unavailable, Code::Unavailable);
    Refusal::from_reasons(reasons)
}

/// Returns the name of a SidecarSet for messages: with `generateName`, the API server makes a name only after admission.
fn shown_name(object: &Value) -> String {
    let text = |key: &str| json::text(object, &["metadata", key]);
    match (text("name"), text("generateName")) {
        ("", prefix) if !prefix.is_empty() => format!("{prefix}*"),
        (name, _) => name.to_owned(),
    }
}

/// TRUST-3: whether the policy's settings have a SidecarSet of this name.
fn is_in_settings(name: &str, others: &[SidecarSet]) -> bool {
    others.iter().any(|other| other.name() == name && other.is_of_settings())
}

fn undecodable(set: &str, errors: Vec<FieldError>) -> Outcome {
    let mut reasons = Vec::new();
    add_reasons(&mut reasons, set, errors, Code::Undecodable);
    // A decoder that fails without an error would be a bug; refuse the request in that case.
    let refusal = Refusal::from_reasons(reasons).unwrap_or_else(|| {
        reason(set, FieldError::new(FieldPath::default(), Cause::Type, "cannot be decoded"), Code::Undecodable).into()
    });
    refusal.into()
}

/// Adds errors as reasons. `set` is the name of the `SidecarSet`; empty for other objects.
pub(super) fn add_reasons(reasons: &mut Vec<Reason>, set: &str, errors: Vec<FieldError>, code: Code) {
    reasons.extend(errors.into_iter().map(|error| reason(set, error, code)));
}

fn reason(set: &str, error: FieldError, code: Code) -> Reason {
    let reason = Reason::of_field(code, error);
    if set.is_empty() { reason } else { reason.about(set) }
}

#[cfg(test)]
mod tests;
