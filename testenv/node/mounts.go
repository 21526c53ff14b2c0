package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// mounts covers the places that programs write to with folders of the node.
func mounts(folder string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts cannot be kept private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	for _, place := range []string{shimPlace, kubeletPlace, logPlace} {
		if err := makePlace(place); err != nil {
			return err
		}
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

// makePlace makes a folder that only the node sees. One that is made on the machine would stay there if this program is
// killed. So the folder above is covered with a copy, in which the new one is made.
func makePlace(place string) error {
	above := place
	for {
		_, err := os.Stat(above)
		if err == nil {
			break
		}
		if !os.IsNotExist(err) {
			return err
		}
		above = filepath.Dir(above)
	}
	switch above {
	case place:
		return nil
	case "/":
		return fmt.Errorf("%s: there is no folder above it", place)
	}
	if err := copyFolder(above); err != nil {
		return fmt.Errorf("%s cannot be covered with a copy: %w", above, err)
	}
	return os.MkdirAll(place, 0o755)
}

// copyFolder covers a folder with one that has the same entries: what is in it is the machine's own.
func copyFolder(folder string) error {
	covered, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer covered.Close()
	entries, err := covered.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := unix.Mount("copy", folder, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, entry := range entries {
		from := filepath.Join("/proc/self/fd", strconv.Itoa(int(covered.Fd())), entry.Name())
		to := filepath.Join(folder, entry.Name())
		// One that the machine has just removed is no entry any more.
		if err := copyEntry(from, to, entry.Type()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", entry.Name(), err)
		}
	}
	return nil
}

func copyEntry(from, to string, kind os.FileMode) error {
	if kind&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	if kind.IsDir() {
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	} else if err := os.WriteFile(to, nil, 0o600); err != nil {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}
