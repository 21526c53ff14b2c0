package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroups = "/sys/fs/cgroup"

// makeCgroup makes the node's own cgroup, in which kubelet makes those of its Pods: in version 2 alone, in version 1, and
// where the machine has both.
func makeCgroup(name string) error {
	var kind unix.Statfs_t
	if err := unix.Statfs(cgroups, &kind); err != nil {
		return fmt.Errorf("%s: %w", cgroups, err)
	}
	if kind.Type == unix.CGROUP2_SUPER_MAGIC {
		return makeUnified(name)
	}
	hierarchies, err := filepath.Glob(filepath.Join(cgroups, "*"))
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		// Names of joined controllers are links to one hierarchy. The one of version 2 has no controllers here.
		info, err := os.Lstat(hierarchy)
		if err != nil || !info.IsDir() || filepath.Base(hierarchy) == "unified" {
			continue
		}
		if err := makeIn(hierarchy, name); err != nil {
			return err
		}
	}
	return nil
}

// makeIn makes a cgroup in a hierarchy of version 1.
func makeIn(hierarchy, name string) error {
	own := filepath.Join(hierarchy, name)
	if err := os.MkdirAll(own, 0o755); err != nil {
		return fmt.Errorf("a cgroup cannot be made: %w; %s", err, inContainer)
	}
	// A new cgroup has no processors and no memory, until it gets some.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(hierarchy, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(own, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeUnified makes a cgroup in version 2, and lets it and those below have all controllers.
func makeUnified(name string) error {
	own := filepath.Join(cgroups, name)
	if err := os.MkdirAll(own, 0o755); err != nil {
		return fmt.Errorf("a cgroup cannot be made: %w; %s", err, inContainer)
	}
	for _, parent := range []string{cgroups, own} {
		known, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
		if err != nil {
			return err
		}
		for _, controller := range strings.Fields(string(known)) {
			if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
				return fmt.Errorf("the controller %q of cgroups cannot be passed on in %s: %w; a container whose first cgroup has processes cannot have nodes, its machine can", controller, parent, err)
			}
		}
	}
	return nil
}

// removeCgroup removes a cgroup in which nothing has run.
func removeCgroup(name string) {
	for _, hierarchy := range []string{cgroups, filepath.Join(cgroups, "*")} {
		folders, _ := filepath.Glob(filepath.Join(hierarchy, name))
		for _, folder := range folders {
			_ = os.Remove(folder)
		}
	}
}
