//! Changes of other webhooks to sidecars, which a second admission keeps (ORDER-9).

use std::collections::BTreeSet;

use pillion_kubernetes::checked_text;
use pillion_kubernetes::name_validation::env_var_name;
use pillion_kubernetes::text::{TextError, all_checked, check_length};
use serde::Deserialize;

use crate::image;
use crate::names;

/// Variables that name code, libraries or options which a program loads, or decide how it finds the cluster.
const OF_CODE: [&str; 40] = [
    "CDPATH",
    "CLASSPATH",
    "COMPlus_EnableDiagnostics",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_SHARED_STORE",
    "DOTNET_STARTUP_HOOKS",
    "ENV",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "GODEBUG",
    "HOME",
    "HOSTALIASES",
    "IFS",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "KUBECONFIG",
    "LOCALDOMAIN",
    "LOCPATH",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "NLSPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PATH",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PS4",
    "RES_OPTIONS",
    "SHELLOPTS",
    "TERMINFO",
    "XDG_CONFIG_HOME",
    "_JAVA_OPTIONS",
    names::ENV_IS_INJECTED,
];
/// Beginnings of such variables.
const OF_CODE_BEGINNINGS: [&str; 13] = [
    "BASH",
    "CORECLR_",
    "COR_",
    "DYLD_",
    "ERL_",
    "GEM_",
    "GIT_",
    "KUBERNETES_",
    "LD_",
    "MALLOC_",
    "PERL",
    "PYTHON",
    "RUBY",
];

checked_text!(
    /// A registry, with or without a path, as in `mirror.example.com/hub`.
    #[cfg_attr(feature = "schema", schemars(extend(
        "pattern" = r"^(localhost|[^/@]*[.:][^/@]*)(/[a-z0-9._/-]+)?$", "maxLength" = 512
    )))]
    Registry,
    |text| {
        check_length(text)?;
        let problem = "is not a registry; write its host name, a port or not, and a path or not, as in \
                       registry.example.com:5000/mirror";
        if image::is_registry(text) { Ok(()) } else { Err(TextError::malformed(text, problem)) }
    }
);

checked_text!(
    /// The name of a variable that does not decide what a program runs.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = "^[-._a-zA-Z][-._a-zA-Z0-9]*$", "maxLength" = 512)))]
    Variable,
    |text| {
        check_length(text)?;
        if let Some(problem) = env_var_name(text) {
            return Err(TextError::malformed(text, problem));
        }
        if decides_code(text) {
            return Err(TextError::malformed(
                text,
                "can decide what a sidecar runs, or whom it asks; write it into the SidecarSet",
            ));
        }
        Ok(())
    }
);

/// The setting `otherWebhooks`. [`Default`] is what `{}` decodes to: a second admission sets all changes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
pub struct OtherWebhooks {
    /// Registries, with a path or not. An image of a sidecar stays if it is the image of the SidecarSet under one of
    /// them: with the same repository, tag and digest.
    #[serde(deserialize_with = "all_checked::<_, Registry, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Registry>"))]
    pub image_registries: BTreeSet<String>,
    /// Names of variables that stay in a sidecar whose SidecarSet does not have them, if it gets no token of its own.
    #[serde(deserialize_with = "all_checked::<_, Variable, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Variable>"))]
    pub variables: BTreeSet<String>,
}

impl OtherWebhooks {
    /// Whether nothing stays.
    pub fn is_empty(&self) -> bool {
        self.image_registries.is_empty() && self.variables.is_empty()
    }
}

/// Whether a variable can decide what a program runs, whatever the case of its letters.
fn decides_code(name: &str) -> bool {
    let begins =
        |beginning: &&str| name.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning));
    OF_CODE.iter().any(|code| name.eq_ignore_ascii_case(code)) || OF_CODE_BEGINNINGS.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::proxy("HTTP_PROXY", true)]
    #[case::in_lower_case("no_proxy", true)]
    #[case::authorities("SSL_CERT_FILE", true)]
    #[case::authorities_of_node("NODE_EXTRA_CA_CERTS", true)]
    #[case::options_of_node("NODE_OPTIONS", false)]
    #[case::preload("LD_PRELOAD", false)]
    #[case::path("PATH", false)]
    #[case::path_of_windows("Path", false)]
    #[case::python("PYTHONPATH", false)]
    #[case::java("JAVA_TOOL_OPTIONS", false)]
    #[case::the_cluster("KUBERNETES_SERVICE_HOST", false)]
    #[case::our_mark("IS_INJECTED", false)]
    #[case::glob("HTTP_*", false)]
    #[case::empty("", false)]
    fn order9_variables(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(Variable::try_from(name.to_owned()).is_ok(), expected);
    }

    #[rstest]
    #[case::registry(
        json!({"imageRegistries": ["team"]}),
        "\"team\": is not a registry; write its host name, a port or not, and a path or not, as in \
         registry.example.com:5000/mirror"
    )]
    #[case::variable(
        json!({"variables": ["HTTP_PROXY", "LD_PRELOAD"]}),
        "\"LD_PRELOAD\": can decide what a sidecar runs, or whom it asks; write it into the SidecarSet"
    )]
    fn order9_messages(#[case] settings: serde_json::Value, #[case] expected: &str) {
        assert_eq!(serde_json::from_value::<OtherWebhooks>(settings).unwrap_err().to_string(), expected);
    }
}
