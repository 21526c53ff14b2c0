package main

import (
	"os"
	"path/filepath"
	"strings"
)

const containerdSocket = shimPlace + "/containerd.sock"

// The settings of containerd. $FOLDER is that of the node.
//
// oom_score and restrict_oom_score_adj: without CAP_SYS_RESOURCE, a process cannot lower its score.
const containerdSettings = `version = 2
root = "$FOLDER/containerd"
state = "/run/containerd"
oom_score = 0

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "$FOLDER/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "pillion.test/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$FOLDER/registries"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$FOLDER/cni/bin"
    conf_dir = "$FOLDER/cni/conf"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "/run/containerd/runc"
`

// nowhere is where images of all registries are asked for: an image that was not imported is refused at once, and nothing
// is looked up.
const nowhere = `server = "http://127.0.0.1:1"

[host."http://127.0.0.1:1"]
  capabilities = ["pull", "resolve"]
`

// containerdProgram writes the settings of containerd, and returns how it is started.
func containerdProgram(o options) (program, error) {
	path, err := found("containerd")
	if err != nil {
		return program{}, err
	}
	file := filepath.Join(o.folder, "containerd.toml")
	files := map[string]string{
		file: strings.ReplaceAll(containerdSettings, "$FOLDER", o.folder),
		filepath.Join(o.folder, "registries/_default/hosts.toml"): nowhere,
	}
	for file, text := range files {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return program{}, err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return program{}, err
		}
	}
	return program{path, []string{"--config", file}, filepath.Join(o.logs, "containerd.log")}, nil
}
