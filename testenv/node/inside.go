package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

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
