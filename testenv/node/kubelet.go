package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// kubeletProgram writes the settings of kubelet, and returns how it is started.
func kubeletProgram(o options) (program, error) {
	own := func(name string) string { return filepath.Join(o.folder, name) }
	settings := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"address":                  o.name,
		"healthzPort":              0,
		"authentication":           map[string]any{"anonymous": enabled(true), "webhook": enabled(false)},
		"authorization":            map[string]any{"mode": "AlwaysAllow"},
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + o.cgroup,
		// Without cgroups for each class of quality, kubelet 1.34 crashes at the first resize.
		"cgroupsPerQOS":                 true,
		"enforceNodeAllocatable":        []string{},
		"failSwapOn":                    false,
		"failCgroupV1":                  false,
		"makeIPTablesUtilChains":        false,
		"localStorageCapacityIsolation": false,
		"hairpinMode":                   "none",
		"resolvConf":                    "",
		"podLogsDir":                    own("pods"),
		"volumePluginDir":               own("plugins"),
		"imageGCHighThresholdPercent":   100,
		"imageGCLowThresholdPercent":    99,
		// Nothing is evicted, however full the machine is.
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
			"imagefs.inodesFree": "0%",
		},
		"configMapAndSecretChangeDetectionStrategy": "Watch",
		// The node renews its Lease every two seconds, so tests can let a cluster miss it soon.
		"nodeLeaseDurationSeconds":  8,
		"syncFrequency":             "10s",
		"nodeStatusUpdateFrequency": "10s",
		"registryPullQPS":           0,
		"eventRecordQPS":            0,
		"kubeAPIQPS":                200,
		"kubeAPIBurst":              400,
		"oomScoreAdj":               0,
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return program{}, err
	}
	file := own("kubelet.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return program{}, err
	}
	arguments := []string{
		"--config=" + file, "--kubeconfig=" + o.kubeconfig, "--root-dir=" + own("kubelet"), "--cert-dir=" + own("certificates"),
		// kubelet takes no other address of this machine's loopback than one that is the node's name.
		"--hostname-override=" + o.name, "--node-labels=kubernetes.io/hostname=" + o.name,
	}
	if o.gates != "" {
		arguments = append(arguments, "--feature-gates="+strings.TrimSpace(o.gates))
	}
	return program{o.kubelet, arguments, filepath.Join(o.logs, "kubelet.log")}, nil
}

func enabled(is bool) map[string]bool { return map[string]bool{"enabled": is} }
