package main

import (
	"os"
	"path/filepath"
	"syscall"
)

const (
	prefix = "pillion-testenv-"
	// lock is a file in the folder that the keeper has locked as long as it lives.
	lock = "keeper.lock"
)

// held keeps the locked file open.
var held *os.File

// makeFolder makes the folder that this keeper is going to remove, and marks it as in use.
func makeFolder() (string, error) {
	folder, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(folder, "logs"), 0o700); err != nil {
		return "", err
	}
	// It gets its name when it is locked: else another keeper could take it for an abandoned one.
	fresh := filepath.Join(folder, lock+".new")
	if held, err = os.Create(fresh); err != nil {
		return "", err
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	return folder, os.Rename(fresh, filepath.Join(folder, lock))
}

// removeAbandoned removes the folders of keepers that were killed. Others may be doing the same, and a folder of
// somebody else cannot be removed: neither is an error.
func removeAbandoned() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, folder := range folders {
		file, err := os.OpenFile(filepath.Join(folder, lock), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(folder)
		}
		_ = file.Close()
	}
}
