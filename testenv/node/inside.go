package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Places that programs write to, whatever their settings say.
const (
	kubeletPlace = "/var/lib/kubelet"
	logPlace     = "/var/log"
	shimPlace    = "/run/containerd"
)

// settings of the kernel that kubelet changes for the whole machine. It changes copies instead.
var settings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
	"kernel/keys/root_maxbytes",
}

// insideRun runs the node as the first process of its namespaces.
func insideRun(o options) error {
	for _, folder := range []string{o.folder, o.logs} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := mounts(o.folder); err != nil {
		return err
	}
	if err := makeCgroup(o.cgroup); err != nil {
		return err
	}
	network, err := startNetwork(o)
	if err != nil {
		return err
	}
	defer network.Close()
	programs := newPrograms()
	containerd, err := containerdProgram(o)
	if err != nil {
		return err
	}
	kubelet, err := kubeletProgram(o)
	if err != nil {
		return err
	}
	node := &node{programs: programs, known: map[string]program{"containerd": containerd, "kubelet": kubelet}}
	if err := node.start("containerd"); err != nil {
		return err
	}
	for image := range strings.SplitSeq(o.images, ",") {
		if image == "" {
			continue
		}
		if err := node.importImages(image); err != nil {
			return err
		}
	}
	if err := node.start("kubelet"); err != nil {
		return err
	}
	if err := node.listen(filepath.Join(o.folder, "control.sock")); err != nil {
		return err
	}
	// A program that nobody has stopped ends the node.
	ended := <-programs.unexpected
	return fmt.Errorf("%s ended with %s, its log says last:\n%s", ended.name, ended.status, tail(node.known[ended.name].log))
}

// tryRun does what a machine may forbid, and undoes it.
func tryRun(options) error {
	folder, err := os.MkdirTemp("", "pillion-node-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	name := filepath.Base(folder)
	// A part of a cgroup may exist, even if it could not be made in every hierarchy.
	defer removeCgroup(name)
	if err := makeCgroup(name); err != nil {
		return err
	}
	return mounts(folder)
}

// mounts covers the places that programs write to with folders of the node.
func mounts(folder string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts cannot be kept private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	// As after a start of a machine, nothing is left in /run.
	if err := unix.Mount("run", shimPlace, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("%s: %w", shimPlace, err)
	}
	for name, place := range map[string]string{"var-kubelet": kubeletPlace, "var-log": logPlace} {
		own := filepath.Join(folder, name)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(own, place, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	for _, setting := range settings {
		place := filepath.Join("/proc/sys", setting)
		value, err := os.ReadFile(place)
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			return err
		}
		own := filepath.Join(folder, strings.ReplaceAll(setting, "/", "-"))
		if err := os.WriteFile(own, value, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(own, place, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	return nil
}

// until repeats an attempt that waits for a program which is starting.
func until(patience time.Duration, attempt func() error) error {
	started := time.Now()
	for {
		err := attempt()
		if err == nil || time.Since(started) > patience {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// tail returns the end of a log.
func tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// found returns the path of a program that exists.
func found(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is missing: %w", name, err)
	}
	return filepath.Abs(path)
}
