//! What a container can read, and what it may do with that.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pillion_identity::names::MOUNT_PATH;
use serde_json::Value;

use super::shell::Shell;

/// The resources that [`Shell::look`] tries to list.
const RESOURCES: &str = "pods configmaps services";

/// What a container can read, and what it may do with that. Its text is what tests compare, such as
/// `logs lists pods, reads token: logs`.
#[derive(Debug)]
pub struct View {
    /// The account that the API server takes the container for.
    pub account: Option<String>,
    /// The resources that it may list in its namespace.
    pub lists: Vec<String>,
    /// The tokens that it can read, by the file's path; those of the usual folder by the file's name.
    pub tokens: BTreeMap<String, Readable>,
}

/// A file with a token.
#[derive(Debug)]
pub struct Readable {
    /// The permissions of the file, as in `640`, and the numbers of its user and its group, as in `0:3000`.
    pub mode: String,
    pub owner: String,
    pub token: String,
}

impl View {
    /// Returns the token of a file.
    pub fn token(&self, file: &str) -> &str {
        &self.tokens.get(file).unwrap_or_else(|| panic!("{file} cannot be read: {self:?}")).token
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |list: Vec<String>| if list.is_empty() { "nothing".to_owned() } else { list.join(" ") };
        let tokens = self.tokens.iter().map(|(file, readable)| format!("{file}:{}", bearer(&readable.token)));
        let account = self.account.as_deref().unwrap_or("nobody");
        write!(f, "{account} lists {}, reads {}", text(self.lists.clone()), text(tokens.collect()))
    }
}

impl Shell<'_> {
    /// Looks for tokens in every file that the container can open, and tries out who it is.
    pub async fn look(&self) -> View {
        let printed = self.run(&script(self.namespace)).await;
        let mut view = View { account: None, lists: Vec::new(), tokens: BTreeMap::new() };
        for line in printed.lines() {
            match *line.split(' ').collect::<Vec<_>>() {
                ["user", user] => view.account = Some(account(user)),
                ["lists", resource] => view.lists.push(resource.to_owned()),
                ["file", path, mode, owner, token] => {
                    let name = path.strip_prefix(MOUNT_PATH).map_or(path, |name| name.trim_start_matches('/'));
                    let [mode, owner, token] = [mode, owner, token].map(str::to_owned);
                    view.tokens.insert(name.to_owned(), Readable { mode, owner, token });
                }
                _ => panic!("{}: {line}", self.container),
            }
        }
        view
    }
}

/// Returns a script that prints a line for each token that can be read, one for the user and one for each list.
///
/// It follows links, as the files of a projected volume are some, and leaves out what they lead to. Programs and what
/// the kernel makes up are no tokens, and reading a device may never end.
fn script(namespace: &str) -> String {
    format!(
        r#"find / \( -path /proc -o -path /sys -o -path /bin -o -name '..*' \) -prune \
  -o \( -type f -o -type l \) -size -64k -print 2>/dev/null |
while read -r file; do
  [ -f "$file" ] || continue
  case $(readlink -f "$file") in /proc/* | /sys/* | /dev/*) continue ;; esac
  token=$(grep -oE 'eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+' "$file" 2>/dev/null) || continue
  for one in $token; do echo "file $file $(stat -L -c '%a %u:%g' "$file") $one"; done
done
for one in $(env | grep -oE 'eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_.-]+'); do echo "file env 0 0:0 $one"; done
user=$(kubectl auth whoami -o 'jsonpath={{.status.userInfo.username}}' 2>/dev/null) && echo "user $user"
for resource in {RESOURCES}; do
  kubectl get --raw "/api/v1/namespaces/{namespace}/$resource?limit=1" >/dev/null 2>&1 && echo "lists $resource"
done
true"#
    )
}

/// Returns the name of an account, without its namespace; another user as it is.
fn account(user: &str) -> String {
    let parts = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    parts.map_or(user, |(_, name)| name).to_owned()
}

/// Returns whose token it is, and for which audience if it is not for the API server.
pub fn bearer(token: &str) -> String {
    let claims = claims(token);
    let account = account(claims["sub"].as_str().unwrap());
    let audiences: Vec<&str> = claims["aud"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let is_own = audiences.contains(&claims["iss"].as_str().unwrap());
    if is_own { account } else { format!("{account}@{}", audiences.join("+")) }
}

/// Returns the claims of a token, unverified.
pub fn claims(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
}
