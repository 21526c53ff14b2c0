package main

import (
	"os"
	"path/filepath"
	"syscall"
)

const (
	prefix = "pillion-testenv-"
	// lock is a file in the folder. The keeper holds its lock as long as it lives.
	lock = "keeper.lock"
)

// held keeps the locked file open.
var held *os.File

// makeFolder creates the folder that this keeper removes at its end, and marks it as in use.
func makeFolder() (string, error) {
	folder, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(folder, "logs"), 0o700); err != nil {
		return "", err
	}
	// The file gets its final name only when it is locked. Otherwise another keeper could consider it abandoned.
	fresh := filepath.Join(folder, lock+".new")
	if held, err = os.Create(fresh); err != nil {
		return "", err
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	return folder, os.Rename(fresh, filepath.Join(folder, lock))
}

// removeAbandoned removes the folders of killed keepers, and the cgroups of their nodes. Another keeper may do the same at
// the same time, and folders of other users cannot be removed: neither is an error. A folder tells the names of the
// cgroups, so it stays as long as they do.
func removeAbandoned() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, folder := range folders {
		file, err := os.OpenFile(filepath.Join(folder, lock), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			if removeCgroups(cgroupOf(folder, "*")) == nil {
				_ = os.RemoveAll(folder)
			}
		}
		_ = file.Close()
	}
}
