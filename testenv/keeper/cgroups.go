package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// hierarchies are the folders in which a node makes its cgroup: in version 2 alone, and in version 1.
var hierarchies = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"}

// dying is how long processes that are killed keep their cgroups.
const dying = 10 * time.Second

// cgroupOf returns the name of the cgroup of a node, which is a server of the cluster in this folder. "*" is every node.
func cgroupOf(folder, server string) string { return filepath.Base(folder) + "." + server }

// removeCgroups removes the cgroups with a name, and those below. Most servers have none. They have no processes any more,
// or only those that the kernel is just ending.
func removeCgroups(name string) error {
	for started := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var left []string
		for _, hierarchy := range hierarchies {
			roots, _ := filepath.Glob(filepath.Join(hierarchy, name))
			for _, root := range roots {
				if !removeTree(root) {
					left = append(left, root)
				}
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Since(started) > dying {
			return fmt.Errorf("cgroups are in use: %s", strings.Join(left, ", "))
		}
	}
}

// removeTree removes a cgroup and those below, the innermost first. It returns whether all are gone.
func removeTree(root string) bool {
	var folders []string
	_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	slices.Reverse(folders)
	for _, folder := range folders {
		_ = os.Remove(folder)
	}
	_, err := os.Stat(root)
	return errors.Is(err, os.ErrNotExist)
}
